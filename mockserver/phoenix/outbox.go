package phoenix

import (
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
	kind int // as websocket.TextMessage
	end  int
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
	o.putLocked(websocket.PongMessage)
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
		o.putLocked(websocket.CloseMessage)
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
		o.putLocked(kindOf(f))
	}
}

func kindOf(f *frame.Frame) int {
	if f.Binary {
		return websocket.BinaryMessage
	}
	return websocket.TextMessage
}

func (o *outbox) putLocked(kind int) {
	o.pending.messages = append(o.pending.messages, message{kind: kind, end: len(o.pending.data)})
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
