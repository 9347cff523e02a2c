//go:build !race

// phx has data races of its own, which the race detector would report as ours.

package mockserver_test

import (
	"encoding/json"
	"net/url"
	"testing"
	"time"

	"github.com/nshafer/phx"
	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/internal/mocktest"
	"github.com/phxworker/phxworker/mockserver"
)

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
