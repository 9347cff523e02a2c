package channel

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/gorilla/websocket"
)

// kept is the largest buffer that is used again for the next message. The
// payload of a larger message is handed on in the buffer itself.
const kept = 64 << 10

// inbox reads messages into a buffer it uses again.
type inbox struct {
	ws    *websocket.Conn
	limit int64
	buf   []byte
}

// next returns the next message. It is valid until the call of next after it.
func (in *inbox) next() (data []byte, binary bool, err error) {
	kind, r, err := in.ws.NextReader()
	if err != nil {
		return nil, false, err
	}
	buf := in.buf[:0]
	for {
		if len(buf) == cap(buf) {
			buf = slices.Grow(buf, max(4096, len(buf)))
		}
		n, err := r.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		// gorilla's own limit would count compressed bytes.
		if int64(len(buf)) > in.limit {
			return nil, false, fmt.Errorf("a message over the read limit of %d bytes", in.limit)
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, false, err
		}
	}
	in.buf = buf
	if cap(buf) > kept {
		in.buf = nil
	}
	return buf, kind == websocket.BinaryMessage, nil
}

// own returns a payload of the current message as a slice that stays valid.
func (in *inbox) own(payload []byte) []byte {
	if in.buf == nil {
		return payload // the buffer is not used again
	}
	return slices.Clone(payload)
}
