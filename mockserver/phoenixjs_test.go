package mockserver_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/internal/mocktest"
	"github.com/phxworker/phxworker/mockserver"
)

// TestPhoenixJS takes a run to its end with the official JavaScript client.
func TestPhoenixJS(t *testing.T) {
	dir := installPhoenixJS(t)
	s := mockserver.NewTest(t, mocktest.Config(mockserver.Config{WakeDebounce: time.Hour}))

	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, "node", "worker.mjs")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "WORKER_URL="+s.URL(), "HTTP_URL="+s.HTTPURL(), "TOKEN="+workerToken(t, s.Secret(), nil))
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, "%s%s", out, &stderr)

	require.Equal(t, []string{
		`["joined",{}]`,
		`["posted",201]`,
		`["woken",{}]`,
		`["claimed",["js-run"]]`,
		`["run joined",{}]`,
		`["plan",[{"id":"a","body":"fn(s => s)"}]]`,
		`["dataclip",[true,"{\"data\":{\"é\":1}}"]]`,
		`["run:start",null]`,
		`["step:start",true]`,
		`["crashed","errored"]`,
		`["rejoined","joined"]`,
		`["run:log","string"]`,
		`["binary run:log","string"]`,
		`["run:complete",null]`,
		`["again","refused: {\"state\":[\"already in completed state\"]}"]`,
		`["left",{}]`,
		`["queue","joined"]`,
	}, strings.Split(strings.TrimSpace(string(out)), "\n"))

	record, ok := s.Inspect("js-run")
	require.True(t, ok)
	require.Equal(t, mockserver.State("success"), record.State)
	var events []string
	for _, e := range record.Events {
		events = append(events, e.Event+" "+e.Status)
	}
	require.Equal(t, []string{
		"fetch:plan ok", "fetch:dataclip ok", "run:start ok", "step:start ok", "no-such-event crash",
		"run:log ok", "run:log ok", "step:complete ok", "run:complete ok", "run:complete error",
	}, events)
	require.JSONEq(t, `{"__binary_base64":"eyJiaW4iOjF9"}`, string(record.Events[6].Payload))
}

// installPhoenixJS installs the client as its lockfile says, outside of the
// tree. Where Node or the packages are not to be had the test is skipped, but
// not in CI, which relies on it.
func installPhoenixJS(t *testing.T) string {
	t.Helper()
	missing := func(what string) {
		if os.Getenv("CI") != "" {
			require.Fail(t, "CI must run the JavaScript client", what)
		}
		t.Skipf("the JavaScript client is not tested: %s", what)
	}
	for _, program := range []string{"node", "npm"} {
		if _, err := exec.LookPath(program); err != nil {
			missing(program + " is not installed (Node 20 or later is needed)")
		}
	}
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, os.DirFS("testdata/phoenixjs")))
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts", "--prefer-offline")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		missing("npm ci failed: " + string(out))
	}
	return dir
}
