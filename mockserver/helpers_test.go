package mockserver_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/gorilla/websocket"
	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/channel/frame"
	"github.com/phxworker/phxworker/internal/mocktest"
	"github.com/phxworker/phxworker/internal/wstest"
	"github.com/phxworker/phxworker/mockserver"
)

// inMemory is a server reached through memory, for tests in fake time.
type inMemory struct {
	*mockserver.Server
	t        *testing.T
	listener *wstest.Listener
}

func newInMemory(t *testing.T, cfg mockserver.Config) *inMemory {
	t.Helper()
	s, err := mockserver.New(mocktest.Config(cfg))
	require.NoError(t, err)
	m := &inMemory{Server: s, t: t, listener: wstest.NewListener()}
	httpServer := &http.Server{Handler: s}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = httpServer.Serve(m.listener)
	}()
	t.Cleanup(func() {
		require.NoError(t, s.Close())
		require.NoError(t, httpServer.Close())
		<-served
	})
	return m
}

// connect opens a socket with a good token.
func (m *inMemory) connect() *rawClient {
	m.t.Helper()
	d := websocket.Dialer{NetDialContext: m.listener.DialContext}
	return dialRaw(m.t, d, "ws://mock/worker", workerToken(m.t, m.Secret(), nil))
}

// worker connects and joins worker:queue.
func (m *inMemory) worker() *rawClient {
	m.t.Helper()
	c := m.connect()
	require.Equal(m.t, "ok", c.join("worker:queue", `{"capacity":5,"queues":{"manual>*":5}}`).Status)
	return c
}

// enqueue queues a run, and returns its id.
func (m *inMemory) enqueue(r mockserver.Run) (id string) {
	m.t.Helper()
	id, err := m.Enqueue(r)
	require.NoError(m.t, err)
	return id
}

// claimed enqueues a run, claims it and joins its topic.
func (m *inMemory) claimed(r mockserver.Run) (c *rawClient, id string) {
	m.t.Helper()
	m.enqueue(r)
	c = m.worker()
	run := c.claim(`{"demand":1,"worker_name":"w","queues":["manual","*"]}`)[0]
	require.Equal(m.t, "ok", c.join("run:"+run.ID, `{"token":"`+run.Token+`"}`).Status)
	return c, run.ID
}

// workerToken signs a worker's token; change may alter or delete its claims.
func workerToken(t *testing.T, secret string, change map[string]any) string {
	t.Helper()
	claims := jwt.MapClaims{"iss": "urn:openfn:worker", "iat": time.Now().Unix(), "worker_id": "mighty-worker"}
	for k, v := range change {
		claims[k] = v
		if v == nil {
			delete(claims, k)
		}
	}
	token, err := jwt.NewWithClaims(jwt.SigningMethodHS256, claims).SignedString([]byte(secret))
	require.NoError(t, err)
	return token
}

// rawClient is a bare websocket that makes refs and waits for replies, with none
// of the code under test but the frame codec.
type rawClient struct {
	sender

	// pushes are the messages without a ref that came while waiting.
	pushes []frame.Frame
}

func dialRaw(t *testing.T, d websocket.Dialer, url, token string) *rawClient {
	t.Helper()
	conn, resp, err := d.Dial(url+"/websocket?vsn=2.0.0&token="+token, nil)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	t.Cleanup(func() { _ = conn.Close() })
	return &rawClient{sender: newSender(t, conn)}
}

// sender is the half of a client that sends.
type sender struct {
	t     *testing.T
	conn  *websocket.Conn
	ref   uint64
	joins map[string]frame.Ref
}

func newSender(t *testing.T, conn *websocket.Conn) sender {
	return sender{t: t, conn: conn, joins: make(map[string]frame.Ref)}
}

// send sends an event and returns its ref.
func (c *sender) send(topic, event, payload string) frame.Ref {
	c.t.Helper()
	c.ref++
	ref := frame.NewRef(c.ref)
	if event == frame.Join {
		c.joins[topic] = ref
	}
	data, err := frame.Append(nil, &frame.Frame{JoinRef: c.joins[topic], Ref: ref, Topic: topic, Event: event, Payload: []byte(payload)})
	require.NoError(c.t, err)
	require.NoError(c.t, c.conn.WriteMessage(websocket.TextMessage, data))
	return ref
}

// exchange sends an event and returns its reply, or the phx_error that came
// instead.
func (c *rawClient) exchange(topic, event, payload string) frame.Frame {
	c.t.Helper()
	ref := c.send(topic, event, payload)
	for {
		f := c.read()
		if f.IsReply() && f.Ref == ref || f.Event == frame.Error && f.Topic == topic {
			return f
		}
		c.pushes = append(c.pushes, f)
	}
}

func (c *rawClient) read() frame.Frame {
	c.t.Helper()
	kind, data, err := c.conn.ReadMessage()
	require.NoError(c.t, err)
	f, err := frame.Decode(data, kind == websocket.BinaryMessage)
	require.NoError(c.t, err)
	return f
}

func (c *rawClient) join(topic, payload string) frame.Frame {
	c.t.Helper()
	return c.exchange(topic, frame.Join, payload)
}

type claimedRun struct{ ID, Token string }

func (c *rawClient) claim(payload string) []claimedRun {
	c.t.Helper()
	f := c.exchange("worker:queue", "claim", payload)
	require.Equal(c.t, "ok", f.Status)
	var response struct{ Runs []claimedRun }
	require.NoError(c.t, json.Unmarshal(f.Payload, &response))
	return response.Runs
}

// claimIDs claims and returns the ids alone.
func (c *rawClient) claimIDs(demand int, queues string) []string {
	c.t.Helper()
	ids := []string{}
	for _, r := range c.claim(fmt.Sprintf(`{"demand":%d,"worker_name":null,"queues":%s}`, demand, queues)) {
		ids = append(ids, r.ID)
	}
	return ids
}

// ok pushes and wants the status ok; it returns the response.
func (c *rawClient) ok(topic, event, payload string) string {
	c.t.Helper()
	f := c.exchange(topic, event, payload)
	require.Equal(c.t, "ok", f.Status, "%s: %s", event, f.Payload)
	return string(f.Payload)
}

// plan is a plan of one job.
func plan(id string) json.RawMessage {
	return json.RawMessage(`{"id":"` + id + `","triggers":[],"edges":[],"jobs":[{"id":"j1","adaptor":"@openfn/language-common@latest","body":"fn(s => s)"}]}`)
}

// inTime is a context for a wait that should not take long.
func inTime(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	t.Cleanup(cancel)
	return ctx
}
