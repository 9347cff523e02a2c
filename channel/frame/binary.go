package frame

import "fmt"

// The first byte of a binary message.
const (
	kindPush      = 0 // either way; a server's push has no ref
	kindReply     = 1 // server to client, in answer to a push
	kindBroadcast = 2 // server to client, to all who joined the topic
)

// maxString is the longest string that a one-byte length can announce.
const maxString = 255

// decodeBinary reads a binary message. A client's can only be a push.
func decodeBinary(data []byte, fromServer bool) (Frame, error) {
	if len(data) == 0 {
		return Frame{}, syntaxError(data, "an empty binary message")
	}
	kind, refs := data[0], 0
	switch {
	case kind == kindPush && !fromServer, kind == kindReply && fromServer:
		refs = 2
	case kind == kindPush:
		refs = 1
	case kind == kindBroadcast && fromServer:
	default:
		return Frame{}, syntaxError(data, fmt.Sprintf("%d is no kind of binary message that may come here", kind))
	}
	s, payload, ok := cutStrings(data[1:], refs+2)
	if !ok {
		return Frame{}, syntaxError(data, "a binary message is shorter than its header says")
	}
	if refs > 0 && !isPlain(s[0]) || refs > 1 && !isPlain(s[1]) {
		return Frame{}, syntaxError(data, "the refs of a binary message must be plain text")
	}
	f := Frame{Topic: s[refs], Event: s[refs+1], Payload: payload, Binary: true}
	if refs > 0 {
		f.JoinRef = binaryRef(s[0])
	}
	if refs > 1 {
		f.Ref = binaryRef(s[1])
	}
	if kind == kindReply {
		f.Event, f.Status = Reply, s[refs+1]
	}
	return f, nil
}

// cutStrings reads n lengths of a byte each, then n strings of those lengths.
func cutStrings(data []byte, n int) (s [4]string, rest []byte, ok bool) {
	if len(data) < n {
		return s, nil, false
	}
	lengths, rest := data[:n], data[n:]
	for i, length := range lengths {
		if len(rest) < int(length) {
			return s, nil, false
		}
		s[i], rest = string(rest[:length]), rest[length:]
	}
	return s, rest, true
}

// binaryRef returns the token that a plain ref of a binary message has in a text message.
func binaryRef(s string) Ref {
	if s == "" {
		return ""
	}
	return Ref(`"` + s + `"`)
}

func appendBinary(dst []byte, f *Frame) ([]byte, error) {
	switch {
	case f.IsReply():
		return appendStrings(append(dst, kindReply), f, f.JoinRef.text(), f.Ref.text(), f.Topic, f.Status)
	case f.Ref == "" && f.JoinRef == "":
		return appendStrings(append(dst, kindBroadcast), f, f.Topic, f.Event)
	case f.Ref == "":
		return appendStrings(append(dst, kindPush), f, f.JoinRef.text(), f.Topic, f.Event)
	default:
		return appendStrings(append(dst, kindPush), f, f.JoinRef.text(), f.Ref.text(), f.Topic, f.Event)
	}
}

func appendStrings(dst []byte, f *Frame, strings ...string) ([]byte, error) {
	for _, s := range strings {
		if len(s) > maxString {
			return nil, fmt.Errorf("a binary message carries strings of at most %d bytes, and %.20q… has %d", maxString, s, len(s))
		}
		dst = append(dst, byte(len(s))) //nolint:gosec // bounded above
	}
	for _, s := range strings {
		dst = append(dst, s...)
	}
	return append(dst, f.Payload...), nil
}
