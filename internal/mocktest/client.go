package mocktest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/gorilla/websocket"
	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/channel/frame"
	"github.com/phxworker/phxworker/internal/wstest"
	"github.com/phxworker/phxworker/mockserver"
)

// Server is a server reached through memory, for tests in fake time.
type Server struct {
	*mockserver.Server

	T        *testing.T
	Listener *wstest.Listener
}

// New returns a server in the mode of [Config].
func New(t *testing.T, cfg mockserver.Config) *Server {
	t.Helper()
	s, err := mockserver.New(Config(cfg))
	require.NoError(t, err)
	m := &Server{Server: s, T: t, Listener: wstest.Serve(t, s)}
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return m
}

// Connect opens a socket with a good token.
func (m *Server) Connect() *Client {
	m.T.Helper()
	d := websocket.Dialer{NetDialContext: m.Listener.DialContext}
	return Dial(m.T, d, "ws://mock/worker", WorkerToken(m.T, m.Secret(), nil))
}

// Worker connects and joins worker:queue.
func (m *Server) Worker() *Client {
	m.T.Helper()
	c := m.Connect()
	require.Equal(m.T, "ok", c.Join("worker:queue", `{"capacity":5,"queues":{"manual>*":5}}`).Status)
	return c
}

// Queue queues a run, and returns its id.
func (m *Server) Queue(r mockserver.Run) (id string) {
	m.T.Helper()
	id, err := m.Enqueue(r)
	require.NoError(m.T, err)
	return id
}

// Claimed enqueues a run, claims it and joins its topic.
func (m *Server) Claimed(r mockserver.Run) (c *Client, id string) {
	m.T.Helper()
	m.Queue(r)
	c = m.Worker()
	run := c.Claim(`{"demand":1,"worker_name":"w","queues":["manual","*"]}`)[0]
	require.Equal(m.T, "ok", c.Join("run:"+run.ID, `{"token":"`+run.Token+`"}`).Status)
	return c, run.ID
}

// WorkerToken signs a worker's token; change may alter or delete its claims.
func WorkerToken(t *testing.T, secret string, change map[string]any) string {
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

// Client is a bare websocket that makes refs and waits for replies, with none
// of the code under test but the frame codec.
type Client struct {
	Sender

	// Pushes are the messages without a ref that came while waiting.
	Pushes []frame.Frame
}

// Dial connects a client; url is that of [mockserver.Server.URL].
func Dial(t *testing.T, d websocket.Dialer, url, token string) *Client {
	t.Helper()
	conn, resp, err := d.Dial(url+"/websocket?vsn=2.0.0&token="+token, nil)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	t.Cleanup(func() { _ = conn.Close() })
	return &Client{Sender: NewSender(t, conn)}
}

// Sender is the half of a client that sends.
type Sender struct {
	T     *testing.T
	Conn  *websocket.Conn
	ref   uint64
	Joins map[string]frame.Ref // the join_ref of each topic
}

// NewSender returns the sending half of a client of that connection.
func NewSender(t *testing.T, conn *websocket.Conn) Sender {
	return Sender{T: t, Conn: conn, Joins: make(map[string]frame.Ref)}
}

// Send sends an event and returns its ref.
func (c *Sender) Send(topic, event, payload string) frame.Ref {
	c.T.Helper()
	c.ref++
	ref := frame.NewRef(c.ref)
	if event == frame.Join {
		c.Joins[topic] = ref
	}
	data, err := frame.Append(nil, &frame.Frame{JoinRef: c.Joins[topic], Ref: ref, Topic: topic, Event: event, Payload: []byte(payload)})
	require.NoError(c.T, err)
	require.NoError(c.T, c.Conn.WriteMessage(websocket.TextMessage, data))
	return ref
}

// Exchange sends an event and returns its reply, or the phx_error that came
// instead.
func (c *Client) Exchange(topic, event, payload string) frame.Frame {
	c.T.Helper()
	ref := c.Send(topic, event, payload)
	for {
		f := c.Read()
		if f.IsReply() && f.Ref == ref || f.Event == frame.Error && f.Topic == topic {
			return f
		}
		c.Pushes = append(c.Pushes, f)
	}
}

func (c *Client) Read() frame.Frame {
	c.T.Helper()
	kind, data, err := c.Conn.ReadMessage()
	require.NoError(c.T, err)
	f, err := frame.Decode(data, kind == websocket.BinaryMessage)
	require.NoError(c.T, err)
	return f
}

// Join joins a topic and returns the reply.
func (c *Client) Join(topic, payload string) frame.Frame {
	c.T.Helper()
	return c.Exchange(topic, frame.Join, payload)
}

// ClaimedRun is a run in the reply to a claim.
type ClaimedRun struct{ ID, Token string }

// Claim claims runs, and returns those that it gets.
func (c *Client) Claim(payload string) []ClaimedRun {
	c.T.Helper()
	f := c.Exchange("worker:queue", "claim", payload)
	require.Equal(c.T, "ok", f.Status)
	var response struct{ Runs []ClaimedRun }
	require.NoError(c.T, json.Unmarshal(f.Payload, &response))
	return response.Runs
}

// ClaimIDs claims and returns the ids alone.
func (c *Client) ClaimIDs(demand int, queues string) []string {
	c.T.Helper()
	ids := []string{}
	for _, r := range c.Claim(fmt.Sprintf(`{"demand":%d,"worker_name":null,"queues":%s}`, demand, queues)) {
		ids = append(ids, r.ID)
	}
	return ids
}

// OK pushes and wants the status ok; it returns the response.
func (c *Client) OK(topic, event, payload string) string {
	c.T.Helper()
	f := c.Exchange(topic, event, payload)
	require.Equal(c.T, "ok", f.Status, "%s: %s", event, f.Payload)
	return string(f.Payload)
}

// Closed reads until the connection ends and returns the close code.
func (c *Client) Closed() int {
	c.T.Helper()
	_, data, err := c.Conn.ReadMessage()
	require.Error(c.T, err, "instead of a close came %s", data)
	closed, ok := errors.AsType[*websocket.CloseError](err)
	if !ok {
		return 1006
	}
	return closed.Code
}

// Heartbeat shows that the connection lives and that nothing else was on its way.
func (c *Client) Heartbeat() {
	c.T.Helper()
	c.ref++
	require.NoError(c.T, c.Conn.WriteMessage(websocket.TextMessage, []byte(`[null,"hb","phoenix","heartbeat",{}]`)))
	require.Equal(c.T, frame.Ref(`"hb"`), c.Read().Ref)
}

// Plan is a plan of one job.
func Plan(id string) json.RawMessage {
	return json.RawMessage(`{"id":"` + id + `","triggers":[],"edges":[],"jobs":[{"id":"j1","adaptor":"@openfn/language-common@latest","body":"fn(s => s)"}]}`)
}

// InTime is a context for a wait that should not take long.
func InTime(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// Call does one request and returns the status and the body.
func Call(t *testing.T, s http.Handler, method, path, body string) (int, string) {
	t.Helper()
	w := httptest.NewRecorder()
	s.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body)))
	return w.Code, w.Body.String()
}

// opaque is a run token of a server with OpaqueTokens.
var opaque = regexp.MustCompile(`"token":"[A-Z2-7]{26}"`)

// WithoutTokens replaces the run tokens in a frame.
func WithoutTokens(text string) string { return opaque.ReplaceAllString(text, `"token":"…"`) }

// TokenOf returns the first run token that the server sent.
func TokenOf(m *Server) string {
	for _, x := range m.Transcript() {
		if token := opaque.FindString(string(x.Data)); token != "" {
			return token[len(`"token":"`) : len(token)-1]
		}
	}
	return ""
}
