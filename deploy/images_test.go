package deploy

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/linter"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
	"github.com/stretchr/testify/require"
)

// stages reads a Dockerfile as BuildKit does; what its linter says is an error.
func stages(t *testing.T, path string) []instructions.Stage {
	t.Helper()
	ast, err := parser.Parse(strings.NewReader(read(t, path)))
	require.NoError(t, err)
	require.Empty(t, ast.Warnings)
	lint := linter.New(&linter.Config{Warn: func(name, description, _, message string, location []parser.Range) {
		t.Errorf("%s:%d: %s: %s: %s", path, location[0].Start.Line, name, message, description)
	}})
	stages, _, err := instructions.Parse(ast.AST, lint)
	require.NoError(t, err)
	return stages
}

// only returns the one command of a kind in a stage.
func only[T any](t *testing.T, stage instructions.Stage) T {
	t.Helper()
	var found []T
	for _, command := range stage.Commands {
		if c, ok := command.(T); ok {
			found = append(found, c)
		}
	}
	require.Len(t, found, 1, "%T", *new(T))
	return found[0]
}

// environmentOf returns the variables of the image that a Dockerfile makes.
func environmentOf(t *testing.T, path string) map[string]string {
	t.Helper()
	all := stages(t, path)
	environment := make(map[string]string)
	for _, pair := range only[*instructions.EnvCommand](t, all[len(all)-1]).Env {
		environment[pair.Key] = pair.Value
	}
	return environment
}

func TestImages(t *testing.T) {
	goVersion := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindStringSubmatch(read(t, "../go.mod"))[1]
	tests := []struct {
		name       string
		base       string
		entrypoint []string
	}{
		{name: "Dockerfile", base: "scratch", entrypoint: []string{"/phxworker"}},
		{name: "Dockerfile.node", base: "node:24-slim", entrypoint: []string{"/usr/bin/tini", "--", "phxworker"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			all := stages(t, tt.name)
			require.Len(t, all, 2)
			require.Equal(t, "golang:"+goVersion, all[0].BaseName)
			require.Equal(t, tt.base, all[1].BaseName)
			require.Contains(t, all[0].Commands[len(all[0].Commands)-1].(*instructions.RunCommand).CmdLine[0], versionVariable(t)+"=$VERSION\"")

			image := all[1]
			require.Regexp(t, `^[1-9]\d*:[1-9]\d*$`, only[*instructions.UserCommand](t, image).User)
			require.Equal(t, "SIGTERM", only[*instructions.StopSignalCommand](t, image).Signal)
			require.Equal(t, tt.entrypoint, only[*instructions.EntrypointCommand](t, image).CmdLine)
			health := only[*instructions.HealthCheckCommand](t, image).Health
			require.Equal(t, []string{"CMD", tt.entrypoint[len(tt.entrypoint)-1], "status"}, health.Test)
			for _, command := range []string{only[*instructions.CmdCommand](t, image).CmdLine[0], "status"} {
				help, code := says(t, command, "--help")
				require.Zero(t, code, help)
			}
			for name := range environmentOf(t, tt.name) {
				requireKnown(t, name, tt.name)
			}
		})
	}
}

// versionVariable is what releases set, too.
func versionVariable(t *testing.T) string {
	t.Helper()
	return regexp.MustCompile(`versionVariable = "([^"]+)"`).FindStringSubmatch(read(t, "release/source.go"))[1]
}

// The build command of the static image is executed, and what it makes is started as
// in the image: as a user without a name, in a root folder with nothing else but the
// authorities, with the variables of the image.
func TestTheStaticImageRuns(t *testing.T) {
	if runtime.GOOS != "linux" || os.Geteuid() != 0 {
		t.Skip("only root on Linux may give a process another root folder: run this in a container")
	}
	all := stages(t, "Dockerfile")
	command := all[0].Commands[len(all[0].Commands)-1].(*instructions.RunCommand).CmdLine[0]
	root := t.TempDir()
	build := exec.CommandContext(t.Context(), "sh", "-c", strings.ReplaceAll(command, "/out/phxworker", filepath.Join(root, "phxworker")))
	build.Dir = ".."
	build.Env = append(os.Environ(), "VERSION=v0.0.1-image", "TARGETOS=linux", "TARGETARCH="+runtime.GOARCH)
	out, err := build.CombinedOutput()
	require.NoError(t, err, string(out))
	for _, dir := range []string{root, filepath.Dir(root)} {
		require.NoError(t, os.Chmod(dir, 0o755)) // a folder of a test is for its user alone
	}

	// The folders that are copied for the image's user.
	for _, command := range all[1].Commands {
		if c, ok := command.(*instructions.CopyCommand); ok && c.Chown != "" {
			require.Equal(t, only[*instructions.UserCommand](t, all[1]).User, c.Chown)
			require.NoError(t, os.Mkdir(filepath.Join(root, c.DestPath), 0o700))
			require.NoError(t, os.Chown(filepath.Join(root, c.DestPath), 65532, 65532))
		}
	}

	inside := func(args ...string) *exec.Cmd {
		cmd := exec.CommandContext(t.Context(), "/phxworker", args...)
		cmd.Dir = "/"
		cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root, Credential: &syscall.Credential{Uid: 65532, Gid: 65532}}
		return cmd
	}
	version := inside("--version")
	out, err = version.CombinedOutput()
	if errors.Is(err, syscall.EPERM) {
		t.Skip("this root may not change the root folder of a process: ", err)
	}
	require.NoError(t, err, string(out))
	require.Contains(t, string(out), "v0.0.1-image")

	server := startServer(t)
	environment := environmentOf(t, "Dockerfile")
	environment["WORKER_LIGHTNING_SERVICE_URL"], environment["WORKER_SECRET"] = server.URL(), server.Secret()
	environment["WORKER_PORT"] = "0"
	w := start(t, server, inside(only[*instructions.CmdCommand](t, all[1]).CmdLine...), environment)
	w.answers("/readyz")
	health := inside(only[*instructions.HealthCheckCommand](t, all[1]).Health.Test[2:]...)
	health.Args = append(health.Args, "--url", w.url)
	out, err = health.CombinedOutput()
	require.NoError(t, err, string(out))
	pause := inside("pause", "--url", w.url) // as with docker exec
	out, err = pause.CombinedOutput()
	require.NoError(t, err, string(out))
	require.Zero(t, w.stop(), w.stderr)
	require.NotContains(t, w.stderr.String(), `"level":"WARN"`)
}
