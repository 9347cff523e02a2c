package channel

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"unicode/utf8"

	"github.com/gorilla/websocket"

	"github.com/phxworker/phxworker/channel/frame"
)

// Binary is a payload that is sent as it is, in a binary frame.
type Binary []byte

// Reply is the server's ok to a push.
type Reply struct {
	// Response is JSON text, or opaque bytes when Binary is set. It is nil when the reply had none. It
	// belongs to the caller.
	Response []byte
	// Binary says that the reply came in a binary frame.
	Binary bool
}

// Decode unmarshals the response, which must be JSON, whatever frame it came in.
func (r Reply) Decode(v any) error {
	if err := json.Unmarshal(r.Response, v); err != nil {
		return fmt.Errorf("channel: decode a reply: %w", err)
	}
	return nil
}

// Message is what the server pushed on a topic by itself.
type Message struct {
	// Join is the join under which it came. That join may be lost by now, or, right after the server's
	// ok, may not be current yet. It is nil for a broadcast that came before the ok.
	Join  *Join
	Event string
	// Payload is JSON text, or opaque bytes when Binary is set. It belongs to the receiver.
	Payload []byte
	Binary  bool
	// Missed is how many messages just before this one were dropped because the buffer was full.
	Missed int
}

// Decode unmarshals the payload, which must be JSON, whatever frame it came in.
func (m Message) Decode(v any) error {
	if err := json.Unmarshal(m.Payload, v); err != nil {
		return fmt.Errorf("channel: decode a message %q: %w", m.Event, err)
	}
	return nil
}

// encoder makes messages in buffers that it uses again.
type encoder struct {
	payload bytes.Buffer
	json    *json.Encoder // writes to payload
	message []byte
}

func newEncoder() *encoder {
	e := new(encoder)
	e.json = json.NewEncoder(&e.payload)
	// HTML escapes would make six bytes of each < > &, and the size of a message is limited.
	e.json.SetEscapeHTML(false)
	return e
}

// encode returns the message for f with a payload. It is valid until the encoder is used again. The
// error is ErrNotSent.
func (e *encoder) encode(f *frame.Frame, payload any, limit int) ([]byte, error) {
	data, err := e.marshal(payload)
	if err != nil {
		return nil, fmt.Errorf("%w: %w: %w", ErrNotSent, ErrPayload, err)
	}
	_, f.Binary = payload.(Binary)
	f.Payload = data
	if !f.Binary {
		f.Payload = frame.Portable(data)
	}
	message, err := frame.Append(e.message[:0], f)
	if err != nil {
		return nil, fmt.Errorf("%w: %w: %w", ErrNotSent, ErrPayload, err)
	}
	if !f.Binary && !utf8.Valid(message) {
		// The server would drop the whole connection (RFC 6455, section 8.1). Only the strings of raw
		// JSON can have such bytes, for neither json.Valid nor the encoder checks them; the encoder
		// makes U+FFFD of them in a Go string.
		message = bytes.ToValidUTF8(message, []byte("\ufffd"))
	}
	e.message = message
	if len(message) > limit {
		return nil, &TooLargeError{Topic: f.Topic, Event: f.Event, Size: len(message), Limit: limit}
	}
	return message, nil
}

// marshal returns the payload's bytes. No payload becomes an empty object, for Phoenix gives
// applications a map.
func (e *encoder) marshal(payload any) ([]byte, error) {
	switch p := payload.(type) {
	case nil:
		return []byte("{}"), nil
	case Binary:
		return p, nil
	case json.RawMessage:
		if !json.Valid(p) { // the server would drop the whole connection
			return nil, errors.New("it is not valid JSON")
		}
		return p, nil
	}
	e.payload.Reset()
	if err := e.json.Encode(payload); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(e.payload.Bytes(), []byte("\n")), nil
}

// release puts the encoder back, unless a large message has made it grow.
func (e *encoder) release(pool *sync.Pool) {
	if cap(e.message) <= reusable && e.payload.Cap() <= reusable {
		pool.Put(e)
	}
}

const (
	// reusable is the size of the largest buffer that is used again for the next message. The payload
	// of a larger message is handed on in the buffer itself.
	reusable = 64 << 10
	// headSize is how much is kept of a message that is too large, and how much of a message must have
	// come before its own limit is looked up. Every payload begins before that.
	headSize = 16 << 10
)

// inbox reads messages into a buffer that it uses again.
type inbox struct {
	ws    *websocket.Conn
	limit int64 // for messages that are kept
	most  int64 // for messages that are read and thrown away
	buf   []byte
	// limitOf returns the limit of a message with this beginning.
	limitOf func(beginning []byte, binary bool) int64
	// received counts decompressed bytes. arriving says that a message has begun to come in and was not
	// handled yet. Other goroutines read both, as signs of life.
	received atomic.Int64
	arriving atomic.Bool
}

// incoming is a message as it was read.
type incoming struct {
	data   []byte // valid until the next one is read
	binary bool
	// size is how much of it was read. If that is over the limit, data is only the beginning, and
	// discard has to read the rest.
	size, limit int64
	rest        io.Reader
}

func (m *incoming) isTooLarge() bool { return m.size > m.limit }

// next returns the next message. After one that is too large, discard must follow.
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
			// One byte over the limit is enough to know that the message is too large.
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
	if cap(buf) > reusable {
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

// own returns a payload of the current message as a slice that stays valid after the next one.
func (in *inbox) own(payload []byte) []byte {
	if in.buf == nil {
		return payload // the buffer is not used again
	}
	return slices.Clone(payload)
}
