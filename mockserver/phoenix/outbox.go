package phoenix

import (
	"bytes"
	"net"
	"sync"
	"time"

	"github.com/gorilla/websocket"

	"github.com/phxworker/phxworker/channel/frame"
)

// maxPending is how much a client may leave unread, in bytes.
const maxPending = 64 << 20

// outbox holds the messages a socket has yet to write. Any goroutine puts
// in; the socket's writer alone takes out.
type outbox struct {
	ready chan struct{} // capacity 1: something was put in

	mu      sync.Mutex // guards what follows, and Topic.phase and Topic.early
	pending batch
	held    []held // by a fault
	closed  bool   // the last message is in, nothing is added any more
	err     error  // what could not be sent, ends the connection
}

// batch is a run of messages, one behind the other in data.
type batch struct {
	data     []byte
	messages []message
}

// message is one websocket message of a batch; it begins where the one before
// it ends.
type message struct {
	kind         int // as websocket.TextMessage
	end          int
	topic, event string // of its frame
}

func newOutbox() *outbox { return &outbox{ready: make(chan struct{}, 1)} }

// send sends a frame.
func (o *outbox) send(f *frame.Frame, d delivery) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.deliverLocked(f, d)
}

// pong answers a ping.
func (o *outbox) pong(payload string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return
	}
	o.pending.data = append(o.pending.data, payload...)
	o.putLocked(message{kind: websocket.PongMessage})
}

// close adds a close frame with the code as the last message. Only the first
// call counts.
func (o *outbox) close(code int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return
	}
	if code != noCode {
		o.pending.data = append(o.pending.data, websocket.FormatCloseMessage(code, "")...)
		o.putLocked(message{kind: websocket.CloseMessage})
	}
	o.closed, o.held = true, nil
	o.wake()
}

// noCode closes without a close frame.
const noCode = 0

func (o *outbox) appendLocked(f *frame.Frame) {
	switch {
	case o.closed:
	case len(o.held) > 0:
		o.appendAmongLocked(f)
	default:
		o.encodeLocked(f)
	}
}

func (o *outbox) encodeLocked(f *frame.Frame) {
	data, err := frame.Append(o.pending.data, f)
	switch {
	case err != nil:
		o.failLocked(err)
	case len(data) > maxPending:
		o.failLocked(errNotReading)
	default:
		o.pending.data = data
		o.putLocked(message{kind: kindOf(f), topic: f.Topic, event: f.Event})
	}
}

func kindOf(f *frame.Frame) int {
	if f.Binary {
		return websocket.BinaryMessage
	}
	return websocket.TextMessage
}

// putLocked ends a message where the data ends now.
func (o *outbox) putLocked(m message) {
	m.end = len(o.pending.data)
	o.pending.messages = append(o.pending.messages, m)
	o.wake()
}

func (o *outbox) failLocked(err error) {
	o.err, o.closed = err, true
	o.wake()
}

func (o *outbox) wake() {
	select {
	case o.ready <- struct{}{}:
	default:
	}
}

// take swaps what is pending with the empty batch given. It says when there
// will be more by the passing of time, and reports last when nothing will follow.
func (o *outbox) take(empty batch) (b batch, next time.Time, last bool, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.held) > 0 {
		next = o.releaseLocked(time.Now())
	}
	b, o.pending = o.pending, empty
	return b, next, o.closed, o.err
}

// reset empties the batch for another use.
func (b batch) reset() batch {
	if cap(b.data) > keepBuffer {
		b.data = nil
	}
	return batch{data: b.data[:0], messages: b.messages[:0]}
}

const (
	// compressFrom is the size from which a message is compressed, if the
	// client offered it. RFC 7692 leaves the choice for each message to the
	// sender; below this, compressing costs more than it saves.
	compressFrom = 1 << 10
	// flushFrom bounds how much a burst of messages collects.
	flushFrom = 64 << 10
)

// write writes what the outbox gets until the last message, and closes the
// socket when its client has been silent for too long.
func (s *socket) write() {
	idle := time.NewTimer(s.endpoint.cfg.IdleTimeout)
	defer idle.Stop()
	late := time.NewTimer(time.Hour) // for replies that a fault delays
	defer late.Stop()
	var b batch
	for {
		select {
		case <-s.out.ready:
		case <-late.C:
		case <-idle.C:
			left := s.endpoint.cfg.IdleTimeout - time.Since(time.Unix(0, s.heard.Load()))
			if left <= 0 {
				s.log.Debug("socket idle")
				s.shut(websocket.CloseNormalClosure)
			} else {
				idle.Reset(left)
			}
			continue
		}
		var next time.Time
		var last bool
		var err error
		b, next, last, err = s.out.take(b.reset())
		if !next.IsZero() {
			late.Reset(time.Until(next))
		}
		if e := s.writeBatch(b); err == nil {
			err = e
		}
		if err != nil {
			s.log.Debug("connection lost", "error", err)
			s.shut(noCode)
			_ = s.wire.Close() // ends the reader
			return
		}
		if last {
			return
		}
	}
}

func (s *socket) writeBatch(b batch) error {
	start := 0
	for _, m := range b.messages {
		data := b.data[start:m.end]
		start = m.end
		if m.kind == websocket.TextMessage || m.kind == websocket.BinaryMessage {
			s.endpoint.cfg.Transcript.add(Exchange{
				Socket: s.id, Direction: ToClient, Topic: m.topic, Event: m.event, Binary: m.kind == websocket.BinaryMessage,
			}, data)
			s.conn.EnableWriteCompression(len(data) >= compressFrom)
			if err := s.conn.WriteMessage(m.kind, data); err != nil {
				return err
			}
		} else if err := s.conn.WriteControl(m.kind, data, time.Now().Add(writeTimeout)); err != nil {
			return err
		}
		if s.wire.buffered() >= flushFrom {
			if err := s.flush(); err != nil {
				return err
			}
		}
	}
	return s.flush()
}

func (s *socket) flush() error {
	if s.closing.Load() {
		return s.wire.flush(closeTimeout)
	}
	return s.wire.flush(writeTimeout)
}

// wire is the connection under the websocket library. It collects what is
// written until flush, so that a burst of replies costs one system call.
type wire struct {
	net.Conn

	mu      sync.Mutex // guards pending
	pending []byte

	spare []byte // used by flush only
}

// tooBig is the close frame by which the websocket library answers a message
// over the limit. Cowboy sends none, and a client can tell 1009 from 1006.
var tooBig = append([]byte{0x88, 2}, websocket.FormatCloseMessage(websocket.CloseMessageTooBig, "")...)

// Write never blocks and never fails: errors show at the flush.
func (w *wire) Write(p []byte) (int, error) {
	if bytes.Equal(p, tooBig) {
		return len(p), nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pending = append(w.pending, p...)
	return len(p), nil
}

// SetWriteDeadline does nothing: each flush sets its own.
func (w *wire) SetWriteDeadline(time.Time) error { return nil }

// buffered returns how many bytes wait for the flush.
func (w *wire) buffered() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.pending)
}

// flush writes what was collected. It must not be called by two goroutines
// at once.
func (w *wire) flush(timeout time.Duration) error {
	w.mu.Lock()
	data := w.pending
	w.pending = w.spare[:0]
	w.mu.Unlock()
	w.spare = nil
	if cap(data) <= keepBuffer {
		w.spare = data
	}
	if len(data) == 0 {
		return nil
	}
	if err := w.Conn.SetWriteDeadline(time.Now().Add(timeout)); err != nil {
		return err
	}
	_, err := w.Conn.Write(data)
	return err
}

// keepBuffer is the largest buffer kept for the next message: what one large
// message needed is given back.
const keepBuffer = 256 << 10
