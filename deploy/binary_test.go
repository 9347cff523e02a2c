package deploy

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// binary is the path of the worker, built once for all tests.
var binary string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "phxworker-deploy-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer func() { _ = os.RemoveAll(dir) }()
		binary = filepath.Join(dir, "phxworker")
		build := exec.Command("go", "build", "-o", binary, "./cmd/phxworker")
		build.Dir, build.Stderr = "..", os.Stderr
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if err := build.Run(); err != nil {
			fmt.Fprintln(os.Stderr, "the worker cannot be built:", err)
			return 1
		}
		return m.Run()
	}())
}

// says returns what a command of the worker's prints, and its exit code.
func says(t *testing.T, args ...string) (string, int) {
	t.Helper()
	var out bytes.Buffer
	cmd := exec.CommandContext(t.Context(), binary, args...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); cmd.ProcessState == nil {
		require.NoError(t, err)
	}
	return out.String(), cmd.ProcessState.ExitCode()
}

// variables returns the names of all environment variables that the worker reads.
func variables(t *testing.T) []string {
	t.Helper()
	help, code := says(t, "start", "--help")
	require.Zero(t, code, help)
	return regexp.MustCompile(`[A-Z]+(_[A-Z]+)+`).FindAllString(help, -1)
}

// notOurs are variables that are not for the worker but for npm and the C library.
var notOurs = []string{"HOME", "NPM_CONFIG_CACHE"}

// requireKnown fails if the worker does not read a variable.
func requireKnown(t *testing.T, name, where string) {
	t.Helper()
	if !slices.Contains(notOurs, name) {
		require.Contains(t, variables(t), name, "%s sets a variable that the worker does not read", where)
	}
}

// drainSeconds is how long a worker with these settings may take to stop: the
// grace for its runs, and 15 s to report what became of them.
func drainSeconds(t *testing.T, settings map[string]string) int {
	t.Helper()
	grace, err := strconv.Atoi(settings["WORKER_GRACE_SECONDS"])
	require.NoError(t, err)
	if limit := settings["WORKER_MAX_RUN_DURATION_SECONDS"]; limit != "" {
		seconds, err := strconv.Atoi(limit)
		require.NoError(t, err)
		require.GreaterOrEqual(t, grace, seconds, "a run that began just before the stop would be cancelled")
	}
	return grace + 15
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	return strings.ReplaceAll(string(text), "\r\n", "\n")
}
