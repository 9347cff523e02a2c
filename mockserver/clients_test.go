package mockserver_test

import (
	"bytes"
	"context"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/channel"
	"github.com/phxworker/phxworker/internal/mocktest"
	"github.com/phxworker/phxworker/mockserver"
)

// TestChannel takes a run to its end with the client of this module, through a
// crash of the topic and two quiet minutes.
func TestChannel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mocktest.New(t, mockserver.Config{})
		ctx := t.Context()
		socket, err := channel.Open(channel.Config{
			URL: "ws://mock/worker", NetDial: m.Listener.DialContext,
			Params: func(context.Context) (url.Values, error) {
				return url.Values{"token": {mocktest.WorkerToken(t, m.Secret(), nil)}}, nil
			},
		})
		require.NoError(t, err)
		defer func() { require.NoError(t, socket.Close()) }()

		queue, err := socket.Join(ctx, "worker:queue", map[string]any{"capacity": 1, "queues": map[string]int{"manual>*": 1}})
		require.NoError(t, err)
		m.Queue(mockserver.Run{Plan: mocktest.Plan("go-run"), Dataclip: []byte(`{"data":{}}`)})
		require.Equal(t, "work-available", (<-queue.Messages()).Event)

		reply, err := queue.Push(ctx, "claim", map[string]any{"demand": 1, "worker_name": nil, "queues": []string{"manual", "*"}})
		require.NoError(t, err)
		var claimed struct{ Runs []mocktest.ClaimedRun }
		require.NoError(t, reply.Decode(&claimed))
		run, err := socket.Join(ctx, "run:go-run", map[string]string{"token": claimed.Runs[0].Token})
		require.NoError(t, err)

		reply, err = run.Push(ctx, "fetch:dataclip", map[string]string{"id": "d"})
		require.NoError(t, err)
		require.True(t, reply.Binary)
		require.Equal(t, `{"data":{}}`, string(reply.Response))

		_, err = run.Push(ctx, "no-such-event", struct{}{})
		require.ErrorIs(t, err, channel.ErrOutcomeUnknown, "the topic crashed")
		_, err = run.Ready(ctx)
		require.NoError(t, err)
		var refused *channel.RefusedError
		_, err = run.Push(ctx, "step:start", struct{}{})
		require.ErrorAs(t, err, &refused)
		require.Contains(t, string(refused.Response), "step_id")

		time.Sleep(2 * time.Minute) // heartbeats keep the socket from the idle time-out
		require.Equal(t, 1, m.Stats().Sockets)

		_, err = run.Push(ctx, "run:complete", map[string]string{"reason": "success"})
		require.NoError(t, err)
		require.NoError(t, run.Leave(ctx))
		result, err := m.Wait(ctx, "go-run")
		require.NoError(t, err)
		require.Equal(t, "success", result.Reason)
	})
}

// TestPhoenixJS takes a run to its end with the official JavaScript client.
func TestPhoenixJS(t *testing.T) {
	dir := installPhoenixJS(t)
	s := mockserver.NewTest(t, mocktest.Config(mockserver.Config{WakeDebounce: time.Hour}))

	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, "node", "worker.mjs")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "WORKER_URL="+s.URL(), "HTTP_URL="+s.HTTPURL(), "TOKEN="+mocktest.WorkerToken(t, s.Secret(), nil))
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
