package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/internal/fence"
)

// The binary as it is shipped, which takes some time to make.
func TestFencesOfTheShippedWorker(t *testing.T) {
	binary := buildWorker(t)
	t.Run("engines inherit nothing that it had open", func(t *testing.T) { inheritsNothing(t, binary) })
	t.Run("it does not start without those it requires", func(t *testing.T) { requiresFences(t, binary) })
}

// Guards against a file that a shell had open, as 9<secret does, and that jobs can read.
func inheritsNothing(t *testing.T, binary string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(path, []byte("not for jobs"), 0o600))
	secret, err := os.Open(path)
	require.NoError(t, err)
	defer secret.Close()
	engine, _ := script(t, `{ cat <&9; } > "$(dirname "$0")/read" 2>&1
echo '{"type":"ready"}'; cat > /dev/null`)
	cmd := exec.CommandContext(t.Context(), binary, "config", "-l", "mock", "--engine", engine)
	cmd.ExtraFiles = slices.Repeat([]*os.File{secret}, 7) // 3 to 9
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	read, err := os.ReadFile(filepath.Join(filepath.Dir(engine), "read"))
	require.NoError(t, err)
	require.NotContains(t, string(read), "not for jobs")
	require.Contains(t, string(read), "9")
}

// A worker that is itself behind fences cannot start any process, so none of those that
// it would put up are there to be found.
func requiresFences(t *testing.T, binary string) {
	t.Helper()
	if runtime.GOOS != "linux" || len(fence.Down(fence.Probe(t.Context()))) > 0 {
		require.Empty(t, os.Getenv("CI"))
		t.Skip("this machine has no fences to put around a worker")
	}
	inside := func(args ...string) (code int, output string) {
		cmd := exec.CommandContext(t.Context(), binary, args...)
		cmd.Env, cmd.Dir = []string{"HOME=" + t.TempDir()}, filepath.Dir(binary)
		require.NoError(t, fence.Policy{Execute: []string{binary, "/lib", "/lib64", "/usr/lib"}}.Wrap(cmd))
		out, err := cmd.CombinedOutput()
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			return exit.ExitCode(), string(out)
		}
		require.NoError(t, err)
		return 0, string(out)
	}
	code, output := inside("start", "-l", "mock", "--port", "off", "--require-fences")
	require.Equal(t, exitUsage, code, output)
	require.Contains(t, ended(t, output), "--require-fences: fences around the processes of the engine are missing: "+
		"files, signals, processes, sockets, privileges, cores, sizes, descriptors (no process could be started to try them: ")
	code, output = inside("config", "-l", "mock")
	require.Equal(t, exitOK, code, output)
	require.Contains(t, output, "jobs are less fenced in than they could be")
	require.Contains(t, output, "# fence signals: missing, no process could be started to try them: ")
}

func TestConfigTellsWhichFencesAreUp(t *testing.T) {
	code, stdout, stderr := execute(t.Context(), nil, "config", "-l", "mock")
	require.Equal(t, exitOK, code, stderr)
	for _, name := range fence.Names() {
		require.Regexp(t, "(?m)^# fence "+name+": (up|missing, .+)$", stdout)
	}
	code, stdout, stderr = execute(t.Context(), nil, "config", "-l", "ws://localhost:1/worker")
	require.Equal(t, exitUsage, code)
	require.Contains(t, stderr, "no secret")
	require.Contains(t, stdout, "# fence files: ", "to look at them takes no secret")
	code, stdout, stderr = execute(t.Context(), nil, "config", "-l", "mock", "--engine", "js", "--require-fences")
	require.Equal(t, exitOK, code)
	require.NotContains(t, stdout, "# fence ")
	require.Contains(t, stderr, "the engine js has no processes")
	code, _, stderr = execute(t.Context(), nil, "config", "-l", "mock", "--engine", "false", "--require-fences")
	require.Equal(t, exitUsage, code)
	require.Contains(t, stderr, "there are no fences around a command")
}
