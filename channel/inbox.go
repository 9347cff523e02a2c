package channel

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"sync/atomic"

	"github.com/gorilla/websocket"
)

const (
	// kept is the largest buffer that is used again for the next message. The
	// payload of a larger message is handed on in the buffer itself.
	kept = 64 << 10
	// headSize is how much is kept of a message that is too large, and has come before
	// its limit is asked for: more than there ever is before a payload.
	headSize = 16 << 10
)

// inbox reads messages into a buffer it uses again.
type inbox struct {
	ws    *websocket.Conn
	limit int64 // of messages that are kept
	most  int64 // of those that are read to be thrown away
	buf   []byte
	// limitOf returns the limit of a message that begins so, if it has one of its own.
	limitOf func(beginning []byte, binary bool) int64
	// received counts bytes, decompressed; arriving is whether a message has begun to come that is
	// not dealt with yet. Others look at them for a sign of life.
	received atomic.Int64
	arriving atomic.Bool
}

// incoming is a message as it was read.
type incoming struct {
	data   []byte // valid until the next one is read
	binary bool
	// size is how much was read of it. If that is over the limit, data is the beginning of
	// the message, and rest brings what discard has to read.
	size, limit int64
	rest        io.Reader
}

func (m *incoming) isTooLarge() bool { return m.size > m.limit }

// next returns the next message. One that is too large must be discarded before the one after it.
func (in *inbox) next() (incoming, error) {
	in.arriving.Store(false)
	kind, r, err := in.ws.NextReader()
	if err != nil {
		return incoming{}, err
	}
	in.arriving.Store(true)
	m := incoming{binary: kind == websocket.BinaryMessage, limit: in.limit}
	buf := in.buf[:0]
	for asked := false; ; {
		if len(buf) == cap(buf) {
			// One byte over the limit is enough to know.
			buf = slices.Grow(buf, int(min(max(4096, int64(len(buf))), m.limit+1-int64(len(buf)))))
		}
		n, err := r.Read(buf[len(buf):cap(buf)])
		in.received.Add(int64(n))
		buf = buf[:len(buf)+n]
		m.data, m.size = buf, int64(len(buf))
		if len(buf) > headSize && !asked {
			m.limit, asked = in.limitOf(buf[:headSize], m.binary), true
		}
		// gorilla's own limit would count compressed bytes, and close the connection.
		if m.isTooLarge() {
			m.data, m.rest = slices.Clone(buf[:min(len(buf), headSize)]), r
			in.buf = nil
			return m, nil
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return incoming{}, err
		}
	}
	in.buf = buf
	if cap(buf) > kept {
		in.buf = nil
	}
	return m, nil
}

// discard reads the rest of a message that is too large. It may take minutes.
func (in *inbox) discard(m *incoming) error {
	buf := make([]byte, headSize)
	for m.size < in.most {
		n, err := m.rest.Read(buf)
		in.received.Add(int64(n))
		m.size += int64(n)
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
	}
	return fmt.Errorf("%w: it has more than %d bytes", errUnreadable, in.most)
}

// own returns a payload of the current message as a slice that stays valid.
func (in *inbox) own(payload []byte) []byte {
	if in.buf == nil {
		return payload // the buffer is not used again
	}
	return slices.Clone(payload)
}
