package deploy

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
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
	require.Equal(t, "%S/"+values["StateDirectory"][0]+"/spool", settings["WORKER_SPOOL"])
	require.Equal(t, "%C/"+values["CacheDirectory"][0]+"/adaptors", settings["WORKER_REPO_DIR"])

	_, arguments, _ := strings.Cut(values["ExecStart"][0], " ")
	help, code := says(t, append(strings.Fields(arguments), "--help")...)
	require.Zero(t, code, help)
	said, code := says(t, "start", "--capacity", "none", "--secret", "s")
	require.Equal(t, []string{strconv.Itoa(code)}, values["RestartPreventExitStatus"], said)
	// Under it, V8 ends at once: it makes the code that it executes.
	require.NotContains(t, values, "MemoryDenyWriteExecute")
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
