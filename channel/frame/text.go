package frame

import (
	"bytes"
	"encoding/json"
	"strings"
	"unicode/utf8"
)

// decodeText reads [join_ref, ref, topic, event, payload]. It scans the envelope by hand, since every
// message has one, and does not look into the payload: whoever decodes that will see if it is broken.
func decodeText(data []byte) (Frame, error) {
	rest := bytes.TrimSpace(data)
	if len(rest) < 2 || rest[0] != '[' || rest[len(rest)-1] != ']' {
		return Frame{}, syntaxError(data, "a text message must be a JSON array")
	}
	f, payload, err := decodeEnvelope(data, rest[1:len(rest)-1])
	if err != nil {
		return Frame{}, err
	}
	if f.Payload = bytes.TrimSpace(payload); len(f.Payload) == 0 {
		return Frame{}, syntaxError(data, "the payload is missing")
	}
	return f, nil
}

// decodeEnvelope reads the four strings at the start of the array's inside, rest, and returns what
// comes after them.
func decodeEnvelope(data, rest []byte) (f Frame, payload []byte, err error) {
	end := endOfElements(rest, 4)
	if end < 0 {
		return Frame{}, nil, syntaxError(data, "the array must have five elements: join_ref, ref, topic, event, payload")
	}
	// The four strings share the memory of one.
	head := string(rest[:end])
	var tokens [4]string
	for i := range tokens {
		comma := endOfElements(head, 1)
		tokens[i], head = strings.Trim(head[:comma-1], space), head[comma:]
	}
	joinRef, ok := decodeRef(tokens[0])
	if !ok {
		return Frame{}, nil, syntaxError(data, "join_ref must be a string, a number or null")
	}
	ref, ok := decodeRef(tokens[1])
	if !ok {
		return Frame{}, nil, syntaxError(data, "ref must be a string, a number or null")
	}
	topic, ok := decodeString(tokens[2])
	if !ok {
		return Frame{}, nil, syntaxError(data, "the topic must be a string")
	}
	event, ok := decodeString(tokens[3])
	if !ok {
		return Frame{}, nil, syntaxError(data, "the event must be a string")
	}
	return Frame{JoinRef: joinRef, Ref: ref, Topic: topic, Event: event}, rest[end:], nil
}

// decodeTextFromServer is decodeText that also reads the status of a reply.
func decodeTextFromServer(data []byte) (Frame, error) {
	f, err := decodeText(data)
	if err != nil || !isReply(f.Event) {
		return f, err
	}
	if err := f.openReply(); err != nil {
		return Frame{}, syntaxError(data, "the payload of a reply must be an object with a status")
	}
	return f, nil
}

// mockReply is the beginning of the event of a reply of OpenFn's lightning-mock; the ref follows.
const mockReply = "chan_reply_"

func isReply(event string) bool { return event == Reply || strings.HasPrefix(event, mockReply) }

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

// cutReply reads the payload of a reply as Phoenix writes it: the keys in this order, without spaces.
// It reports false for any other form, which the JSON decoder must read.
func cutReply(payload []byte) (status string, response []byte, ok bool) {
	const head = `{"response":`
	for _, s := range [...]string{OK, Failed} {
		tail := `,"status":"` + s + `"}`
		if bytes.HasPrefix(payload, []byte(head)) && bytes.HasSuffix(payload, []byte(tail)) {
			response = payload[len(head) : len(payload)-len(tail)]
			// In another form, the tail could be inside a string; then the response is not valid.
			return s, response, json.Valid(response)
		}
	}
	return "", nil, false
}

// space is the white space of JSON.
const space = " \t\r\n"

// endOfElements returns the offset after the comma behind the n-th element of an array's inside; -1 if
// there are fewer. The elements must be strings, numbers or null.
func endOfElements[S ~string | ~[]byte](in S, n int) int {
	for i := 0; i < len(in); i++ {
		switch in[i] {
		case '"':
			i += EndOfString(in[i:]) - 1
		case ',':
			if n--; n == 0 {
				return i + 1
			}
		}
	}
	return -1
}

// EndOfString returns the offset after the closing quote of the JSON string at the start of in, or the
// length of in if the string does not end.
func EndOfString[S ~string | ~[]byte](in S) int {
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

func decodeRef(token string) (Ref, bool) {
	switch {
	case token == "null":
		return "", true
	case len(token) == 0:
		return "", false
	case token[0] == '"', token[0] == '-', token[0] >= '0' && token[0] <= '9':
		return Ref(token), isPlainString(token) || json.Valid([]byte(token))
	}
	return "", false
}

func decodeString(token string) (string, bool) {
	if isPlainString(token) {
		return token[1 : len(token)-1], true
	}
	var s string
	if token == "" || token[0] != '"' || json.Unmarshal([]byte(token), &s) != nil {
		return "", false
	}
	return s, true
}

// isPlainString reports whether token is a JSON string without escapes, so that its value is what
// stands between the quotes.
func isPlainString(token string) bool {
	if len(token) < 2 || token[0] != '"' || token[len(token)-1] != '"' {
		return false
	}
	return isPlain(token[1 : len(token)-1])
}

func isPlain(s string) bool {
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
