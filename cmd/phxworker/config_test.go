package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestConfigShowsTheSettingsAndWhereTheyComeFrom(t *testing.T) {
	path := filepath.Join(t.TempDir(), "phxworker.yaml")
	require.NoError(t, os.WriteFile(path, []byte("# of the team\ngrace: 60\nname: pod-1\n"), 0o600))
	env := map[string]string{"WORKER_SECRET": "hidden", "WORKER_CONFIG": path, "WORKER_PROFILE": "1"}
	code, stdout, stderr := execute(t.Context(), env, "config", "--workloops", "fast_lane:1 slow:2")
	require.Equal(t, exitOK, code)
	require.NotContains(t, stdout+stderr, "hidden")
	require.Contains(t, stdout, "# secret: set, from WORKER_SECRET\n")
	require.Contains(t, stdout, "# config: "+path+", from WORKER_CONFIG\n")
	require.Regexp(t, `(?m)^grace: 60 +# from .*phxworker\.yaml:2$`, stdout)
	require.Regexp(t, `(?m)^workloops: fast_lane:1 slow:2 +# from --workloops$`, stdout)
	require.Regexp(t, `(?m)^# log: info +# default$`, stdout)
	for _, doubt := range []string{
		`option="` + path + `:2: grace"`, "option=WORKER_PROFILE", "queue \\\"slow\\\" is not one of Lightning's", "no slot group has",
	} {
		require.Contains(t, stderr, doubt)
	}
	require.Equal(t, 4, strings.Count(stderr, "level=WARN"), stderr)

	// The same again from the file that was printed.
	require.NoError(t, os.WriteFile(path, []byte(stdout), 0o600))
	code, again, stderr := execute(t.Context(), map[string]string{"WORKER_SECRET": "hidden"}, "config", "--config", path)
	require.Equal(t, exitOK, code)
	require.Equal(t, 4, strings.Count(stderr, "level=WARN"), stderr)
	require.Equal(t, uncommented(stdout), uncommented(again))
}

func TestVariablesThatAreNotKnownAreTold(t *testing.T) {
	const told = `msg="variable is not known" option=WORKER_CAPCITY reason="did you mean WORKER_CAPACITY?"`
	env := map[string]string{"WORKER_CAPCITY": "9"}
	code, _, stderr := execute(t.Context(), env, "config", "-l", "mock", "--engine", "js")
	require.Equal(t, exitOK, code)
	require.Contains(t, stderr, "level=WARN "+told)

	log, stop := start(t, env, "-l", "ws://127.0.0.1:1/worker", "-s", "x", "--log-format", "text", "--engine", "js")
	log.await(t, told)
	require.Equal(t, exitOK, stop())

	// What is missing may be there under another name.
	for _, command := range []string{"config", "start"} {
		code, _, stderr = execute(t.Context(), map[string]string{"WORKER_SECRT": "hidden"}, command)
		require.Equal(t, exitUsage, code)
		require.Equal(t, "phxworker: no secret: set WORKER_SECRET to the secret that the server knows its workers by, or --secret-file to a file with it; "+
			"WORKER_SECRT is set and is not known: did you mean WORKER_SECRET?", last(stderr))
	}
}

func TestConfigTellsOfASecretThatAllCanSee(t *testing.T) {
	code, stdout, stderr := execute(t.Context(), nil, "config", "--secret", "hidden", "--engine", "js")
	require.Equal(t, exitOK, code)
	require.Contains(t, stdout, "# secret: set, from --secret\n")
	require.Contains(t, stderr, `level=WARN msg="a secret is on the command line" option=--secret reason="every user of this machine can read it there: set WORKER_SECRET or --secret-file in its place"`)
	require.Equal(t, 1, strings.Count(stderr, "\n"), stderr)
	require.NotContains(t, stdout+stderr, "hidden")
}

// Guards against a file that warns of options nobody set.
func TestConfigKeptAsAFileWarnsOfNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "phxworker.yaml")
	code, stdout, stderr := execute(t.Context(), nil, "config", "-l", "mock", "--engine", "js")
	require.Equal(t, exitOK, code)
	require.Empty(t, stderr)
	require.Equal(t, []string{"lightning: mock", "engine: js"}, uncommented(stdout))
	require.NoError(t, os.WriteFile(path, []byte(stdout), 0o600))
	code, _, stderr = execute(t.Context(), nil, "config", "--config", path)
	require.Equal(t, exitOK, code)
	require.Empty(t, stderr)
}

// uncommented returns the lines of a config file without their comments.
func uncommented(text string) (lines []string) {
	for line := range strings.Lines(text) {
		if line, _, _ = strings.Cut(line, "#"); strings.TrimSpace(line) != "" {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines
}

// last returns the last line.
func last(text string) string {
	rows := strings.Split(strings.TrimSpace(text), "\n")
	return rows[len(rows)-1]
}

// ended returns the error that the last line of a worker's log tells.
func ended(t *testing.T, stderr string) string {
	t.Helper()
	var line struct{ Msg, Error string }
	require.NoError(t, json.Unmarshal([]byte(last(stderr)), &line), stderr)
	require.Equal(t, "the worker has ended", line.Msg)
	return line.Error
}

// What start would refuse is refused here, and shown none the less.
func TestConfigRefusesWhatStartRefuses(t *testing.T) {
	for _, args := range []string{"--capacity 3 --workloops a:1", "--lightning-public-key ?", "--engine false", "--sentry-dsn x", "--no-loop --port off"} {
		wanted, _, want := execute(t.Context(), nil, append([]string{"start", "-l", "mock", "--port", "0"}, strings.Fields(args)...)...)
		code, stdout, stderr := execute(t.Context(), nil, append([]string{"config", "-l", "mock"}, strings.Fields(args)...)...)
		require.NotZero(t, code)
		require.Equal(t, wanted, code)
		if want = last(want); strings.HasPrefix(want, "{") {
			want = "phxworker: " + ended(t, want)
		}
		require.Equal(t, want, last(stderr))
		require.Regexp(t, `(?m)^lightning: mock +# from --lightning$`, stdout)
	}
	code, stdout, stderr := execute(t.Context(), nil, "config", "--config", "not-there.yaml")
	require.Equal(t, exitUsage, code)
	require.Empty(t, stdout)
	require.Equal(t, "phxworker: --config cannot be read: open not-there.yaml: no such file or directory\n", stderr)
}
