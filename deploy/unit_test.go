package deploy

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/cmd/phxworker/token"
)

// unit returns the values of the unit's keys, in their order.
func unit(t *testing.T) map[string][]string {
	t.Helper()
	values := make(map[string][]string)
	for line := range strings.Lines(read(t, "phxworker.service")) {
		if line = strings.TrimSpace(line); line == "" || strings.ContainsAny(line[:1], "#[") {
			continue
		}
		key, value, ok := strings.Cut(line, "=")
		require.True(t, ok, line)
		values[key] = append(values[key], value)
	}
	return values
}

func TestUnitSetsWhatTheWorkerReads(t *testing.T) {
	values := unit(t)
	settings := make(map[string]string)
	for _, assignment := range values["Environment"] {
		name, value, _ := strings.Cut(assignment, "=")
		requireKnown(t, name, "phxworker.service")
		settings[name] = value
	}
	stop, err := strconv.Atoi(values["TimeoutStopSec"][0])
	require.NoError(t, err)
	require.GreaterOrEqual(t, stop, drainSeconds(t, settings)+10)
	_, arguments, _ := strings.Cut(values["ExecStart"][0], " ")
	help, code := says(t, append(strings.Fields(arguments), "--help")...)
	require.Zero(t, code, help)
	said, code := says(t, "start", "--capacity", "none", "--secret", "s")
	require.Equal(t, []string{strconv.Itoa(code)}, values["RestartPreventExitStatus"], said)
	require.Equal(t, []string{"3"}, values["SuccessExitStatus"], "a drain that outlives the grace is not to be undone")
	// Under it, V8 ends at once: it makes the code that it executes.
	require.NotContains(t, values, "MemoryDenyWriteExecute")
}

// Guards against a unit whose worker refuses to start, for want of a folder that
// nobody has made.
func TestTheUnitStartsInTheFoldersThatSystemdMakes(t *testing.T) {
	values := unit(t)
	state, cache := t.TempDir(), t.TempDir()
	specifiers := strings.NewReplacer("%S", state, "%C", cache)
	for of, names := range map[string][]string{state: values["StateDirectory"], cache: values["CacheDirectory"]} {
		for _, name := range strings.Fields(strings.Join(names, " ")) {
			require.NoError(t, os.MkdirAll(filepath.Join(of, name), 0o700))
		}
	}
	server := startServer(t)
	// What the file of variables has, and what cannot be here as it is there.
	environment := map[string]string{
		"WORKER_LIGHTNING_SERVICE_URL": server.URL(), "WORKER_SECRET": server.Secret(),
		"WORKER_PORT": "0", "PATH": os.Getenv("PATH"),
	}
	require.Equal(t, token.UnitFolder, "/run/"+values["RuntimeDirectory"][0], "where commands look that have no environment of the unit's")
	environment["RUNTIME_DIRECTORY"] = t.TempDir()
	for _, assignment := range values["Environment"] {
		name, value, _ := strings.Cut(specifiers.Replace(assignment), "=")
		environment[name] = value
	}
	_, arguments, _ := strings.Cut(values["ExecStart"][0], " ")
	cmd := exec.CommandContext(t.Context(), binary, strings.Fields(arguments)...)
	cmd.Dir = specifiers.Replace(values["WorkingDirectory"][0])
	w := start(t, server, cmd, environment)
	w.answers("/readyz")
	kept, err := filepath.Glob(filepath.Join(environment["RUNTIME_DIRECTORY"], "*.token"))
	require.NoError(t, err)
	require.Len(t, kept, 1, "the token of its controls")
	require.Zero(t, w.stop(), w.stderr)
	require.NoFileExists(t, kept[0])

	require.DirExists(t, environment["HOME"])
	// Adaptors can be installed: the parent of their folder is there.
	require.DirExists(t, filepath.Dir(environment["WORKER_REPO_DIR"]))
}

func TestSystemdTakesTheUnit(t *testing.T) {
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("systemd-analyze is not installed; Debian has it in the package systemd")
	}
	// verify wants the program and the file of variables to be there.
	text := strings.NewReplacer("/usr/local/bin/phxworker", binary, "/etc/phxworker/env", os.DevNull).Replace(read(t, "phxworker.service"))
	path := filepath.Join(t.TempDir(), "phxworker.service")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	out, err := exec.CommandContext(t.Context(), analyze, "verify", "--man=no", path).CombinedOutput()
	require.NoError(t, err, string(out))
	for line := range strings.Lines(string(out)) { // it complains of other units of the machine, too
		require.NotContains(t, line, "phxworker.service")
	}
}
