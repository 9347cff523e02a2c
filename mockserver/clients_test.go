package mockserver_test

import (
	"bytes"
	"context"
	"encoding/json"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nshafer/phx"
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

// phxClient waits for replies itself: phx loses one now and then, when it comes
// before phx has begun to wait for it.
type phxClient struct {
	t        *testing.T
	socket   *phx.Socket
	messages chan phx.Message
	seen     []phx.Message
}

// TestPhx takes a run to its end with nshafer/phx. Its joins carry strings only,
// and it cannot read a binary frame, so there is no capacity and no dataclip.
func TestPhx(t *testing.T) {
	s := mockserver.NewTest(t, mocktest.Config(mockserver.Config{WakeDebounce: -1}))
	endpoint, err := url.Parse(s.URL() + "?token=" + mocktest.WorkerToken(t, s.Secret(), nil))
	require.NoError(t, err)

	c := &phxClient{t: t, socket: phx.NewSocket(endpoint), messages: make(chan phx.Message, 100)}
	c.socket.OnMessage(func(m phx.Message) { c.messages <- m })
	open := make(chan struct{})
	c.socket.OnOpen(func() { close(open) })
	require.NoError(t, c.socket.Connect())
	defer func() { require.NoError(t, c.socket.Disconnect()) }()
	select {
	case <-open:
	case <-time.After(10 * time.Second):
		require.FailNow(t, "phx did not connect")
	}

	queue := c.join("worker:queue", nil)
	_, err = s.Enqueue(mockserver.Run{Plan: mocktest.Plan("phx-run")})
	require.NoError(t, err)
	c.await(func(m phx.Message) bool { return m.Event == "work-available" && m.JoinRef == 0 && m.Ref == 0 })

	var claimed struct{ Runs []mocktest.ClaimedRun }
	c.push(queue, "claim", map[string]any{"demand": 1, "worker_name": nil, "queues": []string{"manual", "*"}}, &claimed)
	require.Len(t, claimed.Runs, 1)
	run := c.join("run:phx-run", map[string]string{"token": claimed.Runs[0].Token})
	var got json.RawMessage
	c.push(run, "fetch:plan", struct{}{}, &got)
	require.JSONEq(t, string(mocktest.Plan("phx-run")), string(got))
	c.push(run, "run:start", struct{}{}, nil)
	c.push(run, "run:log", map[string]any{"message": []string{"hi"}, "timestamp": "1795168192891559"}, nil)
	c.push(run, "run:complete", map[string]any{"reason": "success"}, nil)
	result, err := s.Wait(mocktest.InTime(t), "phx-run")
	require.NoError(t, err)
	require.Equal(t, "success", result.Reason)

	_, err = run.Leave()
	require.NoError(t, err)
	c.await(func(m phx.Message) bool { return m.Topic == "run:phx-run" && m.Event == "phx_close" })
	_, err = c.socket.Push("worker:queue", "no-such-event", struct{}{}, queue.JoinRef())
	require.NoError(t, err)
	c.await(func(m phx.Message) bool {
		return m.Topic == "worker:queue" && m.Event == "phx_error" && m.Ref == m.JoinRef
	})
}

func (c *phxClient) join(topic string, params map[string]string) *phx.Channel {
	c.t.Helper()
	channel := c.socket.Channel(topic, params)
	_, err := channel.Join()
	require.NoError(c.t, err)
	m := c.await(func(m phx.Message) bool {
		return m.Topic == topic && m.Event == "phx_reply" && m.Ref == m.JoinRef && m.Ref == channel.JoinRef()
	})
	require.Equal(c.t, map[string]any{"status": "ok", "response": map[string]any{}}, m.Payload)
	return channel
}

// push wants the reply ok and decodes its response.
func (c *phxClient) push(channel *phx.Channel, event string, payload, response any) {
	c.t.Helper()
	ref, err := c.socket.Push(channel.Topic(), event, payload, channel.JoinRef())
	require.NoError(c.t, err)
	m := c.await(func(m phx.Message) bool {
		return m.Event == "phx_reply" && m.Ref == ref && m.JoinRef == channel.JoinRef()
	})
	reply, ok := m.Payload.(map[string]any)
	require.True(c.t, ok)
	require.Equal(c.t, "ok", reply["status"], "%s: %v", event, reply)
	if response != nil {
		data, err := json.Marshal(reply["response"])
		require.NoError(c.t, err)
		require.NoError(c.t, json.Unmarshal(data, response))
	}
}

// await returns the first message that fits, among those seen and those to come.
func (c *phxClient) await(fits func(phx.Message) bool) phx.Message {
	c.t.Helper()
	patience := time.After(10 * time.Second)
	for i := 0; ; i++ {
		if i == len(c.seen) {
			select {
			case m := <-c.messages:
				c.seen = append(c.seen, m)
			case <-patience:
				require.FailNow(c.t, "phx did not get it", "it has seen %v", c.seen)
			}
		}
		if fits(c.seen[i]) {
			return c.seen[i]
		}
	}
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
