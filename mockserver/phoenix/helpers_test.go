package phoenix

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/gorilla/websocket"
	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/internal/wstest"
)

// recorderApp answers like the server that the recordings in testdata were made
// against, as far as the tests need it.
type recorderApp struct {
	answers map[string]Reply // by event: what that server's run channel said
	claims  map[string]Reply // by queues, as JSON

	mu    sync.Mutex // guards what follows
	join  string     // "", error or crash: the mode its POST /mode set; or busy
	claim string     // "" or error
	queue *Topic
	left  []string
	later *Later
}

func (a *recorderApp) Connect(params url.Values) (string, error) {
	if params.Get("token") != "good" {
		return "", errors.New("bad token")
	}
	return params.Get("name"), nil
}

func (a *recorderApp) Join(t *Topic, payload []byte) (Channel, Reply) {
	a.mu.Lock()
	defer a.mu.Unlock()
	var p struct{ Token string }
	_ = json.Unmarshal(payload, &p)
	switch {
	case t.Name() == "worker:queue" && a.join == "error":
		return nil, Refuse([]byte(`{"reason":"unauthorized"}`))
	case t.Name() == "worker:queue" && a.join == "crash":
		return nil, Crash("mode")
	case t.Name() == "worker:queue" && a.join == "busy":
		t.Send("early", []byte(`{}`))
		t.Close()
	case t.Name() == "worker:queue":
		a.queue = t
	case t.Name() == "run:unknown":
		return nil, Refuse([]byte(`{"reason":"not_found"}`))
	case len(t.Name()) < 4 || t.Name()[:4] != "run:":
		return nil, Unmatched()
	case p.Token == "":
		return nil, Refuse([]byte(`{"reason":"unauthorized"}`))
	}
	return &recorderChannel{app: a, topic: t.Name()}, OK([]byte(`{}`))
}

func (a *recorderApp) set(join, claim string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.join, a.claim = join, claim
}

func (a *recorderApp) wake() {
	a.mu.Lock()
	t := a.queue
	a.mu.Unlock()
	t.Send("work-available", []byte(`{}`))
}

// deferred returns the answer that is asked for by now.
func (a *recorderApp) deferred() *Later {
	synctest.Wait()
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.later
}

func (a *recorderApp) leftTopics() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.left)
}

type recorderChannel struct {
	app   *recorderApp
	topic string
}

func (c *recorderChannel) Left() {
	c.app.mu.Lock()
	defer c.app.mu.Unlock()
	c.app.left = append(c.app.left, c.topic)
}

func (c *recorderChannel) Handle(p Push) Reply {
	c.app.mu.Lock()
	defer c.app.mu.Unlock()
	switch p.Event {
	case "quick":
		return OK(nil)
	case "slow":
		later, reply := p.Defer()
		c.app.later = later
		return reply
	}
	if c.topic == "worker:queue" {
		if p.Event != "claim" || !bytes.Contains(p.Payload, []byte(`"demand"`)) {
			return Crash("no clause matches")
		}
		if c.app.claim == "error" {
			return Refuse([]byte(`{"reason":"claim refused by mode"}`))
		}
		var claim struct{ Queues json.RawMessage }
		_ = json.Unmarshal(p.Payload, &claim)
		if r, ok := c.app.claims[string(claim.Queues)]; ok && !bytes.Contains(p.Payload, []byte(`"demand":1`)) {
			return r
		}
		return OK([]byte(`{"runs":[]}`))
	}
	if p.Event == "fetch:credential" && !bytes.Contains(p.Payload, []byte(`"c1"`)) {
		return Refuse([]byte(`{"errors":{"id":["Credential not found!"]}}`))
	}
	if r, ok := c.app.answers[p.Event]; ok {
		return r
	}
	return OK(nil)
}

// server is an endpoint in memory.
type server struct {
	t        *testing.T
	listener *wstest.Listener
	endpoint *Endpoint
	app      *recorderApp
}

func newServer(t *testing.T, cfg Config) *server {
	t.Helper()
	app := &recorderApp{}
	cfg.App = app
	endpoint, err := NewEndpoint(cfg)
	require.NoError(t, err)
	s := &server{t: t, listener: wstest.NewListener(), endpoint: endpoint, app: app}
	httpServer := &http.Server{Handler: endpoint}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = httpServer.Serve(s.listener)
	}()
	t.Cleanup(func() {
		require.NoError(t, endpoint.Close())
		require.NoError(t, httpServer.Close())
		<-served
	})
	return s
}

// dial connects with the given websocket options.
func (s *server) dial(d websocket.Dialer) *client {
	s.t.Helper()
	d.NetDialContext = s.listener.DialContext
	conn, resp, err := d.Dial("ws://mock/worker/websocket?vsn=2.0.0&token=good", nil)
	require.NoError(s.t, err)
	require.NoError(s.t, resp.Body.Close())
	s.t.Cleanup(func() { _ = conn.Close() })
	return &client{t: s.t, Conn: conn}
}

// client is a bare websocket: it sends what it is told and shows what it gets.
type client struct {
	t *testing.T
	*websocket.Conn
}

func (c *client) send(text string) {
	c.t.Helper()
	require.NoError(c.t, c.WriteMessage(websocket.TextMessage, []byte(text)))
}

func (c *client) expect(text string) {
	c.t.Helper()
	kind, data, err := c.ReadMessage()
	require.NoError(c.t, err, "waiting for %s", text)
	require.Equal(c.t, websocket.TextMessage, kind)
	require.Equal(c.t, text, string(data))
}

// closed reads until the connection ends and returns the close code.
func (c *client) closed() int {
	c.t.Helper()
	_, data, err := c.ReadMessage()
	require.Error(c.t, err, "instead of a close came %s", data)
	var closed *websocket.CloseError
	if !errors.As(err, &closed) {
		return websocket.CloseAbnormalClosure // reset instead of ended
	}
	return closed.Code
}

func (c *client) join() {
	c.t.Helper()
	c.send(`["1","1","worker:queue","phx_join",{}]`)
	c.expect(`["1","1","worker:queue","phx_reply",{"response":{},"status":"ok"}]`)
}
