package frame

import "bytes"

// Decode reads one websocket message that a server sent; binary tells whether
// it came as a binary one. The error is a [*SyntaxError].
//
// The payload is part of data, not a copy. That of a text message is
// delimited but not validated: it may turn out not to be JSON when it is
// decoded.
func Decode(data []byte, binary bool) (Frame, error) {
	if binary {
		return decodeBinaryFromServer(data)
	}
	return decodeTextFromServer(data)
}

// DecodeHead reads as much of a message that a server sent as stands before its payload, of
// which nothing need be there. Of a reply in a text message, the status is a part of
// the payload. The error is a [*SyntaxError].
func DecodeHead(data []byte, binary bool) (Frame, error) {
	if binary {
		f, err := decodeBinaryFromServer(data)
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

// DecodePush is [Decode] for what a client sent. A client's binary push has a
// ref where a server's has none, and a client sends no replies: an event that
// is called like one is an event like any other.
func DecodePush(data []byte, binary bool) (Frame, error) {
	if binary {
		return decodeBinaryFromClient(data)
	}
	return decodeText(data)
}

// Append appends the message for f to dst and returns the extended slice. It
// is a text message unless f.Binary is set; the payload of a text message
// must be JSON, and a nil one stands for null.
//
// A binary message begins with a byte for its kind and a byte for the length of
// each string:
//
//	client's push   0 | join_ref | ref | topic | event  | the strings | payload
//	server's push   0 | join_ref | topic | event        | the strings | payload
//	reply           1 | join_ref | ref | topic | status | the strings | payload
//	broadcast       2 | topic | event                   | the strings | payload
//
// The kind follows from the frame: a reply by its event, a broadcast by having
// no refs, a server's push by having a join_ref alone. A binary message with a
// string over 255 bytes is an error.
func Append(dst []byte, f *Frame) ([]byte, error) {
	if f.Binary {
		return appendBinary(dst, f)
	}
	return appendText(dst, f)
}
