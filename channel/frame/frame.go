// Package frame encodes and decodes the messages of Phoenix Channels,
// serializer version 2.0.0, in both directions: what a client sends a server
// must read, and the other way round.
//
// A text message is the JSON array [join_ref, ref, topic, event, payload]. A
// binary message is a small header of lengths followed by the strings and the
// payload; see [Append]. Both become the same [Frame], so that the code above
// never asks which of the two was on the wire.
//
// The codec is pinned by messages recorded from a real Phoenix server (see
// testdata), because the client and the mock server of this module share it:
// without the recordings they would share its mistakes as well.
//
// Nothing here keeps state; all functions may be called concurrently.
package frame

import "strconv"

// The events that Phoenix itself gives a meaning. All others belong to the
// application.
const (
	Join      = "phx_join"
	Leave     = "phx_leave"
	Reply     = "phx_reply"
	Error     = "phx_error"
	Close     = "phx_close"
	Heartbeat = "heartbeat"
)

// Control is the topic of heartbeats. No channel can be joined under it.
const Control = "phoenix"

// The two statuses that Phoenix knows for a reply.
const (
	OK     = "ok"
	Failed = "error"
)

// Ref is a message reference exactly as it stands on the wire: a JSON string
// with its quotes ("7" in quotes), a JSON number, or empty for null. Phoenix
// echoes whatever token it was sent, so refs are compared as tokens and
// never parsed.
type Ref string

// NewRef returns the ref that a client makes of its counter: a JSON string.
func NewRef(n uint64) Ref {
	var buf [22]byte
	b := append(buf[:0], '"')
	b = strconv.AppendUint(b, n, 10)
	return Ref(append(b, '"'))
}

// text returns the ref without its quotes, as binary messages carry it.
func (r Ref) text() string {
	if s, ok := decodeString(string(r)); ok {
		return s
	}
	return string(r) // a number, or null
}

// Frame is one message of a channel.
type Frame struct {
	// JoinRef is the ref of the join that the message belongs to. It is empty
	// in broadcasts and in heartbeats.
	JoinRef Ref
	// Ref ties a reply to its push. It is empty in messages a server sends
	// on its own.
	Ref   Ref
	Topic string
	// Event is "phx_reply" for every reply, also for those of servers that
	// name it otherwise (lightning-mock sends chan_reply_<ref>).
	Event string
	// Status is "ok" or "error" in a reply, and empty otherwise.
	Status string
	// Payload is JSON text, or opaque bytes when Binary is set. Of a reply it
	// is the response alone; it is nil when the reply had none.
	Payload []byte
	Binary  bool
}

// IsReply reports whether the frame answers a push.
func (f *Frame) IsReply() bool { return f.Event == Reply }
