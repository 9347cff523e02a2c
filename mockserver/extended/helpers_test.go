package extended_test

import (
	"encoding/json"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorilla/websocket"
	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/channel/frame"
	"github.com/phxworker/phxworker/internal/mocktest"
	"github.com/phxworker/phxworker/mockserver"
)

const (
	everyQueueExtension = `"attempt":1,"claim_ack":1,"drain":1,"lease":1,"longpoll":1,"release":1,"status":1`
	everyRunExtension   = `"cancel":1,"lease":1,"notify":1`
	claimOne            = `{"demand":1,"worker_name":"w","queues":["manual","*"]}`
	claimAndWait        = `{"demand":1,"worker_name":"w","queues":["manual","*"],"wait_ms":60000}`
)

// server is one in extended mode, with clients that offer extensions.
type server struct{ *mocktest.Server }

func newServer(t *testing.T, cfg mockserver.Config) *server { return &server{mocktest.New(t, cfg)} }

// inExtended runs a test in a bubble, with a server in extended mode that has the
// runs given.
func inExtended(t *testing.T, cfg mockserver.Config, runs []string, test func(t *testing.T, m *server)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		cfg.Mode = mockserver.Extended
		cfg.OpaqueTokens = true
		cfg.IdleTimeout = 1000 * time.Hour // nobody here sends heartbeats
		m := newServer(t, cfg)
		for _, id := range runs {
			m.Queue(mockserver.Run{Plan: mocktest.Plan(id)})
		}
		test(t, m)
	})
}

// peer is a bare websocket that reads all the time, so that hours may pass: a pipe has
// no buffer. It has none of the code under test but the frame codec.
type peer struct {
	mocktest.Sender

	mu      sync.Mutex // guards what follows
	frames  []frame.Frame
	replies map[frame.Ref]frame.Frame
	came    chan struct{} // closed by the next frame
}

// peer connects a worker with that worker_id.
func (m *server) peer(id string) *peer {
	m.T.Helper()
	d := websocket.Dialer{NetDialContext: m.Listener.DialContext}
	conn, resp, err := d.Dial("ws://mock/worker/websocket?vsn=2.0.0&token="+mocktest.WorkerToken(m.T, m.Secret(), map[string]any{"worker_id": id}), nil)
	require.NoError(m.T, err)
	require.NoError(m.T, resp.Body.Close())
	c := &peer{Sender: mocktest.NewSender(m.T, conn), replies: make(map[frame.Ref]frame.Frame), came: make(chan struct{})}
	go func() {
		for {
			kind, data, err := conn.ReadMessage()
			if err != nil {
				return
			}
			f, _ := frame.Decode(data, kind == websocket.BinaryMessage)
			c.mu.Lock()
			c.frames = append(c.frames, f)
			if f.IsReply() {
				c.replies[f.Ref] = f
			}
			close(c.came)
			c.came = make(chan struct{})
			c.mu.Unlock()
		}
	}()
	m.T.Cleanup(func() { _ = conn.Close() })
	return c
}

// queued connects a worker and joins worker:queue, with extensions.
func (m *server) queued(id, extensions string) *peer {
	m.T.Helper()
	c := m.peer(id)
	require.Equal(m.T, "ok", c.ask("worker:queue", frame.Join, `{"extensions":{`+extensions+`}}`).Status)
	return c
}

// find returns the frames that came so far and of which that is true.
func (c *peer) find(is func(f frame.Frame) bool) []frame.Frame {
	synctest.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	var found []frame.Frame
	for _, f := range c.frames {
		if is(f) {
			found = append(found, f)
		}
	}
	return found
}

// replied returns the reply to a push, if it has come.
func (c *peer) replied(ref frame.Ref) (frame.Frame, bool) {
	found := c.find(func(f frame.Frame) bool { return f.IsReply() && f.Ref == ref })
	if len(found) == 0 {
		return frame.Frame{}, false
	}
	require.Len(c.T, found, 1)
	return found[0], true
}

// ask sends an event whose reply comes at once.
func (c *peer) ask(topic, event, payload string) frame.Frame {
	c.T.Helper()
	ref := c.Send(topic, event, payload)
	f, ok := c.replied(ref)
	require.True(c.T, ok, "%s %s was not answered", topic, event)
	return f
}

// answer is ask, as text: the status and the response.
func (c *peer) answer(topic, event, payload string) string {
	c.T.Helper()
	f := c.ask(topic, event, payload)
	return f.Status + " " + string(f.Payload)
}

// pushed returns the payloads of an event that the server sent on a topic.
func (c *peer) pushed(topic, event string) []string {
	var payloads []string
	for _, f := range c.find(func(f frame.Frame) bool { return f.Topic == topic && f.Event == event }) {
		payloads = append(payloads, string(f.Payload))
	}
	return payloads
}

// extendedRun is a run as a claim in extended mode has it.
type extendedRun struct {
	ID, Token string
	LeaseMS   *int64 `json:"lease_ms"`
	Attempt   *int
}

func (r extendedRun) topic() string { return "run:" + r.ID }

// runs reads the reply to a claim.
func runs(t *testing.T, f frame.Frame) []extendedRun {
	t.Helper()
	require.Equal(t, "ok", f.Status, string(f.Payload))
	var response struct{ Runs []extendedRun }
	require.NoError(t, json.Unmarshal(f.Payload, &response))
	require.NotNil(t, response.Runs)
	return response.Runs
}

// claim claims one run, which must be there.
func (c *peer) claim() extendedRun {
	c.T.Helper()
	got := runs(c.T, c.ask("worker:queue", "claim", claimOne))
	require.Len(c.T, got, 1)
	return got[0]
}

// claimNothing claims and gets nothing.
func (c *peer) claimNothing() {
	c.T.Helper()
	require.Empty(c.T, runs(c.T, c.ask("worker:queue", "claim", claimOne)))
}

// joinRun joins a run's topic with extensions, and returns the answer.
func (c *peer) joinRun(r extendedRun, extensions string) string {
	c.T.Helper()
	return c.answer(r.topic(), frame.Join, `{"token":"`+r.Token+`","extensions":{`+extensions+`}}`)
}

// begin claims a run, joins it with all extensions, and starts it.
func (c *peer) begin() extendedRun {
	c.T.Helper()
	r := c.claim()
	require.Contains(c.T, c.joinRun(r, everyRunExtension), "ok ")
	require.Equal(c.T, "ok null", c.answer(r.topic(), "run:start", `{}`))
	return r
}

func (m *server) record(id string) mockserver.RunRecord {
	m.T.Helper()
	record, ok := m.Inspect(id)
	require.True(m.T, ok)
	return record
}

// refusals returns the events on record that were refused, with who sent them.
func refusals(record mockserver.RunRecord) []string {
	var all []string
	for _, e := range record.Events {
		if e.Status == "error" {
			all = append(all, e.Event+" "+string(e.Response))
		}
	}
	return all
}

// ends returns how each owner's time with a run ended.
func ends(record mockserver.RunRecord) []mockserver.End {
	var all []mockserver.End
	for _, o := range record.Owners {
		all = append(all, o.End)
	}
	return slices.Clip(all)
}

// pass lets time pass, and all happen that is due then.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}
