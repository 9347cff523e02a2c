package phoenix

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gorilla/websocket"

	"github.com/phxworker/phxworker/channel/frame"
)

const (
	writeTimeout = 10 * time.Second
	// closeTimeout is how long a client may take to answer a close frame.
	closeTimeout = time.Second
)

// socket is one connection from its upgrade to its end. The goroutine of the
// request reads and handles; a second one writes.
type socket struct {
	id       int    // given by Endpoint.add, constant afterwards
	name     string // who the client is
	endpoint *Endpoint
	conn     *websocket.Conn
	wire     *wire
	out      *outbox
	log      *slog.Logger

	topics map[string]*Topic // reader only
	buf    bytes.Buffer      // reader only: the message being handled
	twist  twist             // reader only: what a fault makes of it

	heard   atomic.Int64 // when the client last sent anything, Unix ns
	stalled atomic.Int64 // until when nothing is handled, Unix ns
	closing atomic.Bool  // the end is on its way, messages are ignored
	stop    func()       // closes stopped
	stopped chan struct{}
}

func newSocket(e *Endpoint, conn *websocket.Conn, w *wire, name string) *socket {
	stopped := make(chan struct{})
	return &socket{
		endpoint: e, name: name, conn: conn, wire: w, out: newOutbox(),
		log: e.cfg.Logger, topics: make(map[string]*Topic),
		stopped: stopped, stop: sync.OnceFunc(func() { close(stopped) }),
	}
}

func (s *socket) run() {
	s.log = s.log.With("socket", s.id)
	s.log.Debug("socket opened")
	s.hear()
	s.conn.SetReadLimit(s.endpoint.cfg.MaxFrame)
	s.conn.SetPingHandler(func(payload string) error {
		s.hear()
		s.out.pong(payload)
		return nil
	})
	s.conn.SetPongHandler(func(string) error {
		s.hear()
		return nil
	})
	// The writer sends the close frame, behind the replies still to be sent.
	s.conn.SetCloseHandler(func(int, string) error { return nil })

	if err := s.flush(); err != nil { // the answer to the upgrade
		_ = s.wire.Close()
		return
	}
	written := make(chan struct{})
	go func() {
		defer close(written)
		s.write()
	}()
	code := s.read()
	for _, t := range s.topics {
		if s.out.retire(t) {
			t.channel.Left()
		}
	}
	s.out.close(code)
	<-written
	_ = s.wire.Close()
	s.log.Debug("socket closed")
}

func (s *socket) hear() { s.heard.Store(time.Now().UnixNano()) }

// shut sends a close frame and gives the client closeTimeout to answer it; if
// the code is noCode it ends the connection without. Any goroutine may call it.
func (s *socket) shut(code int) {
	patience := closeTimeout
	if code == noCode {
		patience = 0
	}
	s.closing.Store(true)
	s.out.close(code)
	s.stop()
	_ = s.conn.SetReadDeadline(time.Now().Add(patience))
}

// read handles messages until the connection ends, and returns the code to
// answer with.
func (s *socket) read() int {
	for {
		kind, r, err := s.conn.NextReader()
		if err == nil {
			s.buf.Reset()
			_, err = s.buf.ReadFrom(io.LimitReader(r, s.endpoint.cfg.MaxFrame+1))
		}
		if err != nil {
			return s.ended(err)
		}
		if int64(s.buf.Len()) > s.endpoint.cfg.MaxFrame {
			return s.ended(websocket.ErrReadLimit)
		}
		s.hear()
		s.rest()
		if s.closing.Load() {
			continue
		}
		s.receive(kind == websocket.BinaryMessage)
		if s.buf.Cap() > keepBuffer {
			s.buf = bytes.Buffer{}
		}
	}
}

func (s *socket) receive(binary bool) {
	data := s.buf.Bytes()
	s.endpoint.cfg.Transcript.add(s.id, FromClient, binary, data)
	f, err := frame.DecodePush(data, binary)
	if err == nil && !binary && !json.Valid(f.Payload) {
		err = errors.New("the payload is not JSON")
	}
	if err == nil && !binary && !bytes.Equal(frame.Portable(f.Payload), f.Payload) {
		err = errors.New("the payload has a lone surrogate, or a number beyond float64, which Jason refuses")
	}
	if err != nil {
		s.log.Warn("socket crashed by what is not a frame", "error", err)
		s.shut(websocket.CloseInternalServerErr)
		return
	}
	s.handle(&f)
}

func (s *socket) ended(err error) int {
	var closed *websocket.CloseError
	if errors.As(err, &closed) && closed.Code != websocket.CloseAbnormalClosure {
		return closed.Code
	}
	if errors.Is(err, websocket.ErrReadLimit) {
		s.log.Warn("connection dropped: a message is over the limit", "limit", s.endpoint.cfg.MaxFrame)
	}
	return noCode
}
