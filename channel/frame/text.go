package frame

import (
	"bytes"
	"encoding/json"
	"strings"
	"unicode/utf8"
)

// decodeText reads [join_ref, ref, topic, event, payload]. The envelope is
// scanned by hand, for it is read for every message; the payload is only
// delimited, not validated, except in a reply, whose status and response are
// taken apart. Whoever decodes the payload finds out if it is broken.
func decodeText(data []byte) (Frame, error) {
	rest := bytes.TrimSpace(data)
	if len(rest) < 2 || rest[0] != '[' || rest[len(rest)-1] != ']' {
		return Frame{}, syntaxError(data, "a text message must be a JSON array")
	}
	rest = rest[1 : len(rest)-1]

	var tokens [4][]byte
	for i := range tokens {
		token, after, ok := cutElement(rest)
		if !ok {
			return Frame{}, syntaxError(data, "the array must have five elements: join_ref, ref, topic, event, payload")
		}
		tokens[i], rest = token, after
	}
	joinRef, ok := decodeRef(tokens[0])
	if !ok {
		return Frame{}, syntaxError(data, "join_ref must be a string, a number or null")
	}
	ref, ok := decodeRef(tokens[1])
	if !ok {
		return Frame{}, syntaxError(data, "ref must be a string, a number or null")
	}
	topic, ok := decodeString(tokens[2])
	if !ok {
		return Frame{}, syntaxError(data, "the topic must be a string")
	}
	event, ok := decodeString(tokens[3])
	if !ok {
		return Frame{}, syntaxError(data, "the event must be a string")
	}
	payload := bytes.TrimSpace(rest)
	if len(payload) == 0 {
		return Frame{}, syntaxError(data, "the payload is missing")
	}

	f := Frame{JoinRef: joinRef, Ref: ref, Topic: topic, Event: event, Payload: payload}
	if event == Reply || strings.HasPrefix(event, mockReply) {
		if err := f.openReply(); err != nil {
			return Frame{}, syntaxError(data, "the payload of a reply must be an object with a status")
		}
	}
	return f, nil
}

// mockReply begins the event of a reply of OpenFn's lightning-mock; the ref
// follows.
const mockReply = "chan_reply_"

func (f *Frame) openReply() error {
	status, response, ok := cutReply(f.Payload)
	if !ok {
		var body struct {
			Status   string          `json:"status"`
			Response json.RawMessage `json:"response"`
		}
		if err := json.Unmarshal(f.Payload, &body); err != nil {
			return err
		}
		status, response = body.Status, body.Response
	}
	if status == "" {
		return &SyntaxError{Reason: "no status"}
	}
	f.Event, f.Status, f.Payload = Reply, status, response
	return nil
}

// cutReply takes apart a reply the way Phoenix writes it, with its keys in
// this order and no spaces. It reports false for any other spelling, which
// the general decoder then reads.
func cutReply(payload []byte) (status string, response []byte, ok bool) {
	const head = `{"response":`
	for _, s := range [...]string{OK, Failed} {
		tail := `,"status":"` + s + `"}`
		if bytes.HasPrefix(payload, []byte(head)) && bytes.HasSuffix(payload, []byte(tail)) {
			response = payload[len(head) : len(payload)-len(tail)]
			// The tail could be inside a string of a longer, differently
			// spelled reply; only a whole JSON value can stand before it.
			return s, response, json.Valid(response)
		}
	}
	return "", nil, false
}

// cutElement returns the first element of the inside of an array, which must
// be a string, a number or null, and what follows its comma.
func cutElement(in []byte) (element, rest []byte, ok bool) {
	in = bytes.TrimLeft(in, " \t\r\n")
	end := 0
	if len(in) > 0 && in[0] == '"' {
		end = endOfString(in)
	}
	comma := bytes.IndexByte(in[end:], ',')
	if comma < 0 {
		return nil, nil, false
	}
	comma += end
	return bytes.TrimRight(in[:comma], " \t\r\n"), in[comma+1:], true
}

// endOfString returns the offset after the closing quote of the string that in
// begins with, or its length if the string does not end.
func endOfString(in []byte) int {
	for i := 1; i < len(in); i++ {
		switch in[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(in)
}

func decodeRef(token []byte) (Ref, bool) {
	switch {
	case string(token) == "null":
		return "", true
	case len(token) == 0:
		return "", false
	case token[0] == '"', token[0] == '-', token[0] >= '0' && token[0] <= '9':
		return Ref(token), isPlainString(token) || json.Valid(token)
	}
	return "", false
}

func decodeString(token []byte) (string, bool) {
	if isPlainString(token) {
		return string(token[1 : len(token)-1]), true
	}
	var s string
	if len(token) == 0 || token[0] != '"' || json.Unmarshal(token, &s) != nil {
		return "", false
	}
	return s, true
}

// isPlainString reports whether token is a JSON string without escapes, which
// is its own value.
func isPlainString(token []byte) bool {
	if len(token) < 2 || token[0] != '"' || token[len(token)-1] != '"' {
		return false
	}
	return isPlain(token[1 : len(token)-1])
}

func isPlain[S ~string | ~[]byte](s S) bool {
	for i := range len(s) {
		if c := s[i]; c < 0x20 || c >= utf8.RuneSelf || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}

func appendText(dst []byte, f *Frame) ([]byte, error) {
	dst = append(dst, '[')
	dst = appendRef(dst, f.JoinRef)
	dst = append(dst, ',')
	dst = appendRef(dst, f.Ref)
	dst = append(dst, ',')
	dst = appendString(dst, f.Topic)
	dst = append(dst, ',')
	dst = appendString(dst, f.Event)
	dst = append(dst, ',')
	if f.IsReply() {
		dst = append(dst, `{"response":`...)
		dst = appendPayload(dst, f.Payload)
		dst = append(dst, `,"status":`...)
		dst = appendString(dst, f.Status)
		dst = append(dst, '}')
	} else {
		dst = appendPayload(dst, f.Payload)
	}
	return append(dst, ']'), nil
}

func appendRef(dst []byte, r Ref) []byte {
	if r == "" {
		return append(dst, "null"...)
	}
	return append(dst, r...)
}

func appendPayload(dst, payload []byte) []byte {
	if payload == nil {
		return append(dst, "null"...)
	}
	return append(dst, payload...)
}

func appendString(dst []byte, s string) []byte {
	if isPlain(s) {
		dst = append(dst, '"')
		dst = append(dst, s...)
		return append(dst, '"')
	}
	quoted, _ := json.Marshal(s) // a string cannot fail to marshal
	return append(dst, quoted...)
}
