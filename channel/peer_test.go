package channel

import (
	"context"
	"crypto/sha1"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/url"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/phxworker/phxworker/channel/frame"
	"github.com/phxworker/phxworker/internal/wstest"
)

func TestMain(m *testing.M) {
	// The peer that some tests look at leaves its goroutines behind.
	var ignored []goleak.Option
	for _, name := range []string{"(*Websocket).connectionManager", "(*Websocket).connectionReader", "(*Websocket).connectionWriter", "(*Socket).heartbeat"} {
		ignored = append(ignored, goleak.IgnoreAnyFunction("github.com/nshafer/phx."+name))
	}
	goleak.VerifyTestMain(m, ignored...)
}

// server is the other side of the wire: a real http.Server that upgrades, and
// hands each connection to the test, which plays Phoenix by hand.
type server struct {
	t        *testing.T
	listener *wstest.Listener
	conns    chan *peer
	upgrader websocket.Upgrader
	// refuse answers upgrades with an HTTP error, if it is set to other than 0.
	refuse atomic.Int64
}

// newServer must be called inside a synctest bubble.
func newServer(t *testing.T) *server {
	s := &server{t: t, listener: wstest.NewListener(), conns: make(chan *peer, 100)}
	srv := &http.Server{Handler: s}
	go func() { _ = srv.Serve(s.listener) }()
	t.Cleanup(func() {
		_ = srv.Close()
		for len(s.conns) > 0 {
			_ = (<-s.conns).ws.Close()
		}
	})
	return s
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if status := int(s.refuse.Load()); status != 0 {
		http.Error(w, http.StatusText(status), status)
		return
	}
	ws, err := s.upgrader.Upgrade(w, r, nil)
	if err != nil {
		return
	}
	s.conns <- &peer{t: s.t, ws: ws, request: r}
}

// config reaches the server from within its bubble.
func (s *server) config() Config {
	return Config{URL: "ws://localhost/socket", NetDial: s.listener.DialContext}
}

// open opens a socket and closes it at the end of the test.
func (s *server) open(cfg Config) *Socket {
	socket, err := Open(cfg)
	require.NoError(s.t, err)
	s.t.Cleanup(func() { require.NoError(s.t, socket.Close()) })
	return socket
}

// accept waits for the next connection.
func (s *server) accept() *peer {
	s.t.Helper()
	select {
	case p := <-s.conns:
		s.t.Cleanup(func() { _ = p.ws.Close() })
		return p
	case <-time.After(time.Hour):
		require.FailNow(s.t, "no connection within an hour")
		return nil
	}
}

// peer is the server's end of one connection.
type peer struct {
	t       *testing.T
	ws      *websocket.Conn
	request *http.Request
}

// read returns the next frame of the client, and answers heartbeats before it.
func (p *peer) read() frame.Frame {
	p.t.Helper()
	for {
		f := p.next()
		if f.Topic != frame.Control {
			return f
		}
		p.beat(f)
	}
}

// serve sends what answer makes of each frame, until the connection ends.
func (p *peer) serve(answer func(frame.Frame) string) {
	for {
		kind, data, err := p.ws.ReadMessage()
		if err != nil {
			return
		}
		f, err := frame.DecodePush(data, kind == websocket.BinaryMessage)
		if err != nil {
			return
		}
		message := okReply(f, "{}")
		if f.Topic != frame.Control {
			message = answer(f)
		}
		if p.ws.WriteMessage(websocket.TextMessage, []byte(message)) != nil {
			return
		}
	}
}

// beat answers a heartbeat.
func (p *peer) beat(f frame.Frame) {
	p.ok(f, `{}`)
}

// next returns the next frame of the client.
func (p *peer) next() frame.Frame {
	p.t.Helper()
	kind, data, err := p.ws.ReadMessage()
	require.NoError(p.t, err)
	f, err := frame.DecodePush(data, kind == websocket.BinaryMessage)
	require.NoError(p.t, err)
	return f
}

// expect reads a frame, which must be of this topic and event.
func (p *peer) expect(topic, event string) frame.Frame {
	p.t.Helper()
	f := p.read()
	require.Equal(p.t, topic+" "+event, f.Topic+" "+f.Event)
	return f
}

// closed waits for the end of the connection, from the client's side, and
// returns what it looked like; nothing else may arrive.
func (p *peer) closed() error {
	p.t.Helper()
	_, data, err := p.ws.ReadMessage()
	require.Error(p.t, err, "instead of closing, the client sent %s", data)
	return err
}

func (p *peer) send(format string, args ...any) {
	p.t.Helper()
	require.NoError(p.t, p.ws.WriteMessage(websocket.TextMessage, fmt.Appendf(nil, format, args...)))
}

// ok answers a push or a join.
func (p *peer) ok(f frame.Frame, response string) {
	p.t.Helper()
	p.send("%s", okReply(f, response))
}

func (p *peer) refuse(f frame.Frame, response string) {
	p.t.Helper()
	p.send("%s", errorReply(f, response))
}

// join answers the join that must come next.
func (p *peer) join(topic string) frame.Frame {
	p.t.Helper()
	f := p.expect(topic, "phx_join")
	require.Equal(p.t, f.JoinRef, f.Ref)
	p.ok(f, `{}`)
	return f
}

// close sends a close frame, waits for the client's and drops the connection.
func (p *peer) close(code int) {
	p.t.Helper()
	message := websocket.FormatCloseMessage(code, "")
	require.NoError(p.t, p.ws.WriteControl(websocket.CloseMessage, message, time.Now().Add(time.Second)))
	_, _, _ = p.ws.ReadMessage()
	require.NoError(p.t, p.ws.Close())
}

// drop ends the connection without a close frame.
func (p *peer) drop() { require.NoError(p.t, p.ws.Close()) }

func params(values ...string) func(context.Context) (url.Values, error) {
	return func(context.Context) (url.Values, error) {
		v := url.Values{}
		for i := 0; i < len(values); i += 2 {
			v.Set(values[i], values[i+1])
		}
		return v, nil
	}
}

func rawJSON(s string) json.RawMessage { return json.RawMessage(s) }

// wstestListener returns a listener whose connections nobody serves.
func wstestListener(t *testing.T) *wstest.Listener {
	listener := wstest.NewListener()
	t.Cleanup(func() { _ = listener.Close() })
	return listener
}

// acceptKey is the answer that RFC 6455 wants to a Sec-WebSocket-Key.
func acceptKey(key string) string {
	sum := sha1.Sum([]byte(key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	return base64.StdEncoding.EncodeToString(sum[:])
}

func okReply(f frame.Frame, response string) string    { return reply(f, frame.OK, response) }
func errorReply(f frame.Frame, response string) string { return reply(f, frame.Failed, response) }

func reply(f frame.Frame, status, response string) string {
	f.Event, f.Status, f.Payload, f.Binary = frame.Reply, status, []byte(response), false
	message, err := frame.Append(nil, &f)
	if err != nil {
		panic(err)
	}
	return string(message)
}

func discardLog() *log.Logger { return log.New(io.Discard, "", 0) }

// outcome is what an asynchronous call returned.
type outcome[T any] struct {
	value T
	err   error
}

// async runs a call on a goroutine of its own.
func async[T any](call func() (T, error)) <-chan outcome[T] {
	done := make(chan outcome[T], 1)
	go func() {
		value, err := call()
		done <- outcome[T]{value, err}
	}()
	return done
}

func asyncJoin(s *Socket, topic string, payload any) <-chan outcome[*Topic] {
	return async(func() (*Topic, error) { return s.Join(context.Background(), topic, payload) })
}

func asyncPush(topic *Topic, event string, payload any) <-chan outcome[Reply] {
	return async(func() (Reply, error) { return topic.Push(context.Background(), event, payload) })
}

// joined returns a socket with one topic joined, and the server's end of it.
func joined(t *testing.T, s *server, cfg Config) (*Socket, *Topic, *peer, frame.Frame) {
	t.Helper()
	socket := s.open(cfg)
	p := s.accept()
	joining := asyncJoin(socket, "room:1", nil)
	f := p.join("room:1")
	got := <-joining
	require.NoError(t, got.err)
	return socket, got.value, p, f
}
