package phoenix

import (
	"bytes"
	"net"
	"sync"
	"time"

	"github.com/gorilla/websocket"
)

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
