package channel

import (
	"encoding/json"
	"fmt"
)

// Binary is a payload that is sent as it is, in a binary frame.
type Binary []byte

// Reply is the server's ok to a push.
type Reply struct {
	// Response is JSON text, or opaque bytes when Binary is set. It is nil when
	// the reply had none. It belongs to the caller.
	Response []byte
	// Binary tells that the reply came in a binary frame.
	Binary bool
}

// Decode unmarshals the response, which must be JSON, whatever frame it came in.
func (r Reply) Decode(v any) error {
	if err := json.Unmarshal(r.Response, v); err != nil {
		return fmt.Errorf("channel: decode a reply: %w", err)
	}
	return nil
}

// Message is something the server pushed on a topic by itself.
type Message struct {
	// Join is the one that it came under. It need not count any more; and of a
	// message that came right behind the server's ok, it may not count yet. It is nil
	// for a broadcast that came before the ok.
	Join  *Join
	Event string
	// Payload is JSON text, or opaque bytes when Binary is set. It belongs to
	// the receiver.
	Payload []byte
	Binary  bool
	// Missed is how many messages were dropped between the previous one that
	// was delivered and this one, because the buffer was full.
	Missed int
}

// Decode unmarshals the payload, which must be JSON, whatever frame it came in.
func (m Message) Decode(v any) error {
	if err := json.Unmarshal(m.Payload, v); err != nil {
		return fmt.Errorf("channel: decode a message %q: %w", m.Event, err)
	}
	return nil
}
