package adaptors

import (
	"context"
	"os/exec"
	"strings"
)

const noNPM = "npm is not installed here, and the package is not either: install Node.js with npm, or install the package beforehand with phxworker adaptors install"

// Without the network npm would try for a minute and more.
var npmPatience = []string{"--loglevel=error", "--fetch-retry-mintimeout=1000", "--fetch-retry-maxtimeout=5000"}

// npm runs npm in dir and returns its standard output. What it said as it failed
// is returned as well, in failure. The error is an [*InstallError], or why ctx
// ended.
func npm(ctx context.Context, dir string, of specifier, command string, args ...string) (stdout string, failure npmFailure, err error) {
	path, err := exec.LookPath("npm")
	if err != nil {
		return "", npmFailure{code: missing}, &InstallError{Specifier: of.String(), Reason: noNPM}
	}
	cmd := process(ctx, path, append(append([]string{command}, npmPatience...), args...)...)
	var out strings.Builder
	var said tail
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = dir, toolEnv(), &out, &said
	err = cmd.Run()
	switch {
	case err == nil:
		return strings.TrimSpace(out.String()), failure, nil
	case ctx.Err() != nil:
		return "", failure, context.Cause(ctx)
	}
	failure = readFailure(said.String())
	reason := failure.reason()
	if len(failure.lines) == 0 {
		// Not npm's doing: it was killed, or is a broken program.
		reason = "npm failed: " + err.Error()
		if last := lastLine(said.String()); last != "" {
			reason += "\n" + last
		}
	}
	return "", failure, &InstallError{Specifier: of.String(), Reason: reason}
}

// askNPM asks npm for the version that a tag stands for.
func (r *Repo) askNPM(ctx context.Context, s specifier) (version string, offline bool, err error) {
	// In a folder of our own, for npm takes settings from where it is.
	if err := mkdir(r.dir); err != nil {
		return "", false, &InstallError{Specifier: s.String(), Reason: err.Error()}
	}
	out, failure, err := npm(ctx, r.dir, s, "view", "--", s.String(), "version")
	if err != nil {
		return "", failure.offline(), err
	}
	found := specifier{name: s.name, version: out}
	if !found.exact() {
		return "", false, &InstallError{Specifier: s.String(), Reason: "npm has no version of this package with that tag"}
	}
	return out, false, nil
}

// npmInstall installs a package into dir, which has a package.json. Scripts of
// packages are not run.
func npmInstall(ctx context.Context, dir string, s specifier) error {
	_, _, err := npm(ctx, dir, s, "install", "--no-audit", "--no-fund", "--no-package-lock", "--ignore-scripts", "--", s.String())
	return err
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}
