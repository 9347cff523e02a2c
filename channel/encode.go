package channel

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"unicode/utf8"

	"github.com/phxworker/phxworker/channel/frame"
)

// encoder makes messages in buffers it uses again.
type encoder struct {
	payload bytes.Buffer
	json    *json.Encoder // writes to payload
	message []byte
}

func newEncoder() *encoder {
	e := new(encoder)
	e.json = json.NewEncoder(&e.payload)
	// Escaping < > & for HTML would make six bytes of one, of a limited size.
	e.json.SetEscapeHTML(false)
	return e
}

// encode returns the message for f with the payload given. It is valid until
// the encoder is used again. The error is ErrNotSent.
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
		// Neither json.Valid nor the encoder look into raw JSON for this, and
		// the server would drop the whole connection (RFC 6455, section 8.1).
		// What is invalid can only be inside a string, and becomes what the
		// encoder makes of it in a Go string.
		message = bytes.ToValidUTF8(message, []byte("\ufffd"))
	}
	e.message = message
	if len(message) > limit {
		return nil, &TooLargeError{Topic: f.Topic, Event: f.Event, Size: len(message), Limit: limit}
	}
	return message, nil
}

// marshal returns the payload's bytes. No payload is sent as an empty object,
// for Phoenix hands applications a map.
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

// release puts the encoder back, unless it has grown large over an unusual
// message.
func (e *encoder) release(pool *sync.Pool) {
	if cap(e.message) <= kept && e.payload.Cap() <= kept {
		pool.Put(e)
	}
}
