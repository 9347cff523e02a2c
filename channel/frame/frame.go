// Package frame encodes and decodes the messages of Phoenix Channels, serializer version 2.0.0: those
// of clients and those of servers.
//
// A text message is the JSON array [join_ref, ref, topic, event, payload]. A binary message is a small
// header of lengths, then the strings and the payload; see [Append]. Both become the same [Frame], so
// that callers need not know which one was on the wire.
//
// The client and the mock server of this module share this codec, and would share its mistakes. So the
// tests hold it to messages that were recorded from a real Phoenix server (see testdata).
//
// Nothing here keeps state; all functions may be called concurrently.
package frame

import (
	"bytes"
	"fmt"
	"strconv"
)

// The events of Phoenix itself. All others belong to the application.
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

// Ref is a message reference exactly as it stands on the wire: a JSON string with its quotes, a JSON
// number, or empty for null. Phoenix sends back the token that it was sent, so refs are compared as
// tokens and never parsed.
type Ref string

// NewRef returns the ref of a client's n-th message, a JSON string.
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
	// JoinRef is the ref of the join that the message belongs to. It is empty in broadcasts and in
	// heartbeats.
	JoinRef Ref
	// Ref ties a reply to its push. It is empty in what a server sends by itself.
	Ref   Ref
	Topic string
	// Event is "phx_reply" for every reply, also where the server calls it otherwise (lightning-mock
	// sends chan_reply_<ref>).
	Event string
	// Status is "ok" or "error" in a reply, and empty otherwise.
	Status string
	// Payload is JSON text, or opaque bytes when Binary is set. For a reply it is the response alone,
	// nil if the reply had none.
	Payload []byte
	Binary  bool
}

// IsReply reports whether the frame answers a push.
func (f *Frame) IsReply() bool { return f.Event == Reply }

// Decode reads a message that a server sent; binary says whether it came as a binary one. The error is
// a [*SyntaxError].
//
// The payload is part of data, not a copy. The payload of a text message is not validated: it may turn
// out not to be JSON when it is decoded.
func Decode(data []byte, binary bool) (Frame, error) {
	if binary {
		return decodeBinary(data, true)
	}
	return decodeTextFromServer(data)
}

// DecodeHead reads what stands before the payload of a message that a server sent; data may end
// anywhere after that. It cannot read the status of a reply in a text message, which is a part of the
// payload. The error is a [*SyntaxError].
func DecodeHead(data []byte, binary bool) (Frame, error) {
	if binary {
		f, err := decodeBinary(data, true)
		f.Payload = nil
		return f, err
	}
	rest := bytes.TrimLeft(data, space)
	if len(rest) == 0 || rest[0] != '[' {
		return Frame{}, syntaxError(data, "a text message must be a JSON array")
	}
	f, _, err := decodeEnvelope(data, rest[1:])
	if isReply(f.Event) {
		f.Event = Reply
	}
	return f, err
}

// DecodePush is [Decode] for what a client sent. A client's binary push has a ref, which a server's has
// not. A client sends no replies, so it treats an event with the name of a reply like any other.
func DecodePush(data []byte, binary bool) (Frame, error) {
	if binary {
		return decodeBinary(data, false)
	}
	return decodeText(data)
}

// Append appends the message for f to dst and returns the extended slice. It is a text message unless
// f.Binary is set. The payload of a text message must be JSON; nil is null.
//
// A binary message begins with a byte for its kind and a byte for the length of
// each string:
//
//	client's push   0 | join_ref | ref | topic | event  | the strings | payload
//	server's push   0 | join_ref | topic | event        | the strings | payload
//	reply           1 | join_ref | ref | topic | status | the strings | payload
//	broadcast       2 | topic | event                   | the strings | payload
//
// A reply is known by its event, a broadcast by having no refs, a server's push by having a join_ref
// only. In a binary message, a string over 255 bytes is an error.
func Append(dst []byte, f *Frame) ([]byte, error) {
	if f.Binary {
		return appendBinary(dst, f)
	}
	return appendText(dst, f)
}

// SyntaxError says why a message is not a frame.
type SyntaxError struct {
	// Reason is what is wrong, as part of a sentence.
	Reason string
	// Start is the beginning of the message, quoted, 40 bytes at most. It ends before the payload,
	// which may have secrets.
	Start string
}

func (e *SyntaxError) Error() string {
	return fmt.Sprintf("not a Phoenix V2 message: %s (it begins with %s)", e.Reason, e.Start)
}

func syntaxError(data []byte, reason string) error {
	const shown = 40
	start := data[:min(len(data), shown)]
	for i, c := range start {
		if c == '{' {
			start = start[:i]
			break
		}
	}
	return &SyntaxError{Reason: reason, Start: fmt.Sprintf("%q", start)}
}
