package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// source is the commit that a release is made of.
type source struct {
	root    string
	version string
	time    time.Time // of the commit; everything in an archive is of that time
}

// readSource refuses a tree that no commit stands for, and a version that is
// another commit's.
func readSource(ctx context.Context, root, version string) (source, error) {
	changes, err := output(ctx, root, "git", "status", "--porcelain")
	switch {
	case err != nil:
		return source{}, err
	case changes != "":
		return source{}, fmt.Errorf("a release is made of a commit, and these files are not as in it:\n%s", changes)
	}
	head, err := output(ctx, root, "git", "log", "-1", "--format=%H %ct")
	if err != nil {
		return source{}, err
	}
	commit, at, _ := strings.Cut(head, " ")
	seconds, err := strconv.ParseInt(at, 10, 64)
	if err != nil {
		return source{}, fmt.Errorf("the time of commit %s: %w", commit, err)
	}
	tagged, err := output(ctx, root, "git", "tag", "--list", version, "--format=%(if)%(*objectname)%(then)%(*objectname)%(else)%(objectname)%(end)")
	if err != nil {
		return source{}, err
	}
	if tagged != "" && tagged != commit {
		return source{}, fmt.Errorf("the tag %s is on commit %s, and this is %s: check the tag out, or choose the next version", version, tagged, commit)
	}
	return source{root: root, version: version, time: time.Unix(seconds, 0).UTC()}, nil
}

// versionVariable is what the binary takes its version from. The linker says
// nothing if there is no such variable, so build looks whether it was heard.
const versionVariable = "github.com/phxworker/phxworker/cmd/phxworker/build.version"

func (s source) build(ctx context.Context, p platform, binary string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=true", //nolint:gosec // the version was checked
		"-ldflags", "-s -w -X "+versionVariable+"="+s.version, "-o", binary, "./cmd/phxworker")
	cmd.Dir, cmd.Stderr = s.root, os.Stderr
	// What a person's settings could change of the binary is set.
	cmd.Env = append(os.Environ(), "GOOS="+p.os, "GOARCH="+p.arch, "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off",
		"GOAMD64=v1", "GOARM64=v8.0", "GOEXPERIMENT=", "GOFIPS140=off")
	if err := cmd.Run(); err != nil {
		return err
	}
	if p.os != runtime.GOOS || p.arch != runtime.GOARCH {
		return nil
	}
	says, err := output(ctx, s.root, binary, "--version")
	if err == nil && !strings.Contains(says, s.version) {
		err = fmt.Errorf("the binary says %q: does %s still exist?", says, versionVariable)
	}
	return err
}

// output returns what a command wrote, without the last line break.
func output(ctx context.Context, dir string, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...) //nolint:gosec // git, go, and the binary that was just built
	var stdout, stderr bytes.Buffer
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, bytes.TrimSpace(stderr.Bytes()))
	}
	return strings.TrimSpace(stdout.String()), nil
}

// contents returns the files of an archive by their names in it.
func (s source) contents(ctx context.Context, binary string, made bill) (map[string]file, error) {
	files := map[string]file{"phxworker": {path: binary, executable: true}}
	for name, path := range map[string]string{
		"LICENSE":           "LICENSE",
		"README.md":         "README.md",
		"CHANGELOG.md":      "CHANGELOG.md",
		"OPTIONS.md":        "cmd/phxworker/OPTIONS.md",
		"phxworker.service": "deploy/phxworker.service",
	} {
		files[name] = file{path: filepath.Join(s.root, path)}
	}
	goroot, err := output(ctx, s.root, "go", "env", "GOROOT")
	if err != nil {
		return nil, err
	}
	files["licenses/go/LICENSE"] = file{path: filepath.Join(goroot, "LICENSE")}
	for _, module := range made.modules {
		texts, err := licenses(ctx, s.root, module)
		if err != nil {
			return nil, err
		}
		for _, text := range texts {
			files["licenses/"+module.Path+"/"+filepath.Base(text)] = file{path: text}
		}
	}
	return files, nil
}

// licenses returns the files in which a module says how it may be passed on. A
// binary must be accompanied by them, so a module without is an error.
func licenses(ctx context.Context, root string, m module) ([]string, error) {
	dir, err := output(ctx, root, "go", "list", "-m", "-f", "{{.Dir}}", m.Path)
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var texts []string
	for _, entry := range entries {
		name := strings.ToUpper(entry.Name())
		for _, known := range []string{"LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE", "PATENTS"} {
			if strings.HasPrefix(name, known) && entry.Type().IsRegular() {
				texts = append(texts, filepath.Join(dir, entry.Name()))
			}
		}
	}
	if len(texts) == 0 {
		return nil, errors.New("no license was found in module " + m.Path)
	}
	return texts, nil
}
