package adaptors

import (
	"bytes"
	"context"
	"os/exec"
	"strings"
)

const noNPM = "npm is not installed here, and the package is not either: install Node.js with npm, or install the package beforehand with phxworker adaptors install"

// Without the network npm would try for a minute and more, and for five at a registry that
// accepts and does not answer, which is all the time of a run. Of a file that it cannot
// write, it says so in a warning and goes on.
var npmPatience = []string{"--loglevel=warn", "--fetch-retry-mintimeout=1000", "--fetch-retry-maxtimeout=5000", "--fetch-timeout=60000"}

// npm runs npm in dir and returns its standard output. What it said as it failed
// is returned as well, in failure. The error is an [*InstallError], or why ctx
// ended.
func (r *Repo) npm(ctx context.Context, dir string, of specifier, command string, args ...string) (stdout string, failure npmFailure, err error) {
	path, err := exec.LookPath("npm")
	if err != nil {
		return "", npmFailure{code: missing}, &InstallError{Specifier: of.String(), Reason: noNPM, Unable: true, NoNPM: true}
	}
	running, stop := context.WithCancel(ctx)
	defer stop()
	cmd := process(running, path, append(append([]string{command}, npmPatience...), args...)...)
	var out strings.Builder
	said := words{unwritten: stop}
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = dir, r.npmEnv(), &out, &said
	err = cmd.Run()
	switch {
	case ctx.Err() != nil:
		return "", failure, context.Cause(ctx)
	case said.failed != "":
		return "", failure, r.unwritten(of, said.failed)
	case err == nil:
		return strings.TrimSpace(out.String()), failure, nil
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
	if names := r.keptBack(); names != nil {
		reason += "\nnpm did not get " + strings.Join(names, ", ") + " of the worker's environment: name with --npm-env what it needs"
	}
	return "", failure, &InstallError{Specifier: of.String(), Reason: reason, Unable: failure.unable()}
}

// words are what npm says on its standard error.
type words struct {
	tail

	unwritten func() // called at the first file that npm could not write
	failed    string // why it could not
	begun     []byte // of a line
}

// notWritten is in the warning for such a file. npm goes on, and succeeds.
const notWritten = "TAR_ENTRY_ERROR "

func (w *words) Write(p []byte) (int, error) {
	if w.failed == "" {
		w.begun = append(w.begun, p...)
		lines := bytes.SplitAfter(w.begun, []byte("\n"))
		w.begun = lines[len(lines)-1]
		for _, line := range lines[:len(lines)-1] {
			if _, why, found := bytes.Cut(line, []byte(notWritten)); found {
				w.failed = string(bytes.TrimSpace(why))
				w.unwritten()
				break
			}
		}
	}
	return w.tail.Write(p)
}

// unwritten is the error for a package with a file that npm could not write; why is as
// in "ENOSPC: no space left on device, write".
func (r *Repo) unwritten(of specifier, why string) error {
	code, _, _ := strings.Cut(why, ":")
	reason := npmFailure{code: code, lines: []string{why}}.reason()
	if code == "ENOSPC" {
		reason = "no space left in " + r.dir
	}
	return &InstallError{Specifier: of.String(), Reason: reason, Unable: true}
}

// askNPM asks npm for the version that a tag stands for.
func (r *Repo) askNPM(ctx context.Context, s specifier) (version string, offline bool, err error) {
	// In a folder of our own, for npm takes settings from where it is.
	if err := mkdir(r.dir); err != nil {
		return "", false, &InstallError{Specifier: s.String(), Reason: r.unusable(err).Error(), Unable: true}
	}
	out, failure, err := r.npm(ctx, r.dir, s, "view", "--", s.String(), "version")
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
func (r *Repo) npmInstall(ctx context.Context, dir string, s specifier) error {
	_, _, err := r.npm(ctx, dir, s, "install", "--no-audit", "--no-fund", "--no-package-lock", "--ignore-scripts", "--", s.String())
	return err
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}
