package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// ref is the JSON text of a ref, which a server has to send back as it came; null is empty.
type ref string

func (r ref) MarshalJSON() ([]byte, error) {
	if r == "" {
		return []byte("null"), nil
	}
	return []byte(r), nil
}

func refOf(raw []byte) ref {
	if string(raw) == "null" {
		return ""
	}
	return ref(raw)
}

func stringRef(s string) ref {
	raw, _ := json.Marshal(s) // a string always encodes
	return ref(raw)
}

// frame is one message of Phoenix Channels, serializer 2.0.0. The kit reads and writes it with code of its own:
// with the worker's it would share the worker's faults.
type frame struct {
	joinRef, ref ref
	topic, event string
	payload      []byte // of a reply, its response
	status       string // of a reply
	binary       bool
}

const replyEvent = "phx_reply"

func encode(f *frame) ([]byte, error) {
	return marshal([]any{f.joinRef, f.ref, f.topic, f.event, json.RawMessage(f.payload)})
}

// marshal writes JSON as other languages do, with < and > as they are.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

func decode(data []byte, binary bool) (frame, error) {
	if binary {
		return decodeBinary(data)
	}
	var parts []json.RawMessage
	if err := json.Unmarshal(data, &parts); err != nil || len(parts) != 5 {
		return frame{}, errors.New("it is no array of five elements")
	}
	f := frame{joinRef: refOf(parts[0]), ref: refOf(parts[1]), payload: parts[4]}
	if json.Unmarshal(parts[2], &f.topic) != nil || json.Unmarshal(parts[3], &f.event) != nil {
		return frame{}, errors.New("its topic and its event are no strings")
	}
	if f.event != replyEvent {
		return f, nil
	}
	var reply struct {
		Status   string
		Response json.RawMessage
	}
	if json.Unmarshal(f.payload, &reply) != nil || reply.Status == "" {
		return frame{}, errors.New("it is a phx_reply without a status")
	}
	f.status, f.payload = reply.Status, reply.Response
	return f, nil
}

// The kinds of binary frames that a server sends: a push has no ref, a broadcast neither.
const (
	binaryPush      = 0
	binaryReply     = 1
	binaryBroadcast = 2
)

func decodeBinary(data []byte) (frame, error) {
	if len(data) == 0 {
		return frame{}, errors.New("it is empty")
	}
	kind, rest := data[0], data[1:]
	n := map[byte]int{binaryPush: 3, binaryReply: 4, binaryBroadcast: 2}[kind]
	if n == 0 || len(rest) < n {
		return frame{}, fmt.Errorf("it is a binary frame of the kind %d, with %d bytes", kind, len(data))
	}
	sizes, rest := rest[:n], rest[n:]
	texts := make([]string, n)
	for i, size := range sizes {
		if len(rest) < int(size) {
			return frame{}, errors.New("its header is longer than the frame")
		}
		texts[i], rest = string(rest[:size]), rest[size:]
	}
	f := frame{binary: true, payload: rest}
	switch kind {
	case binaryReply:
		f.joinRef, f.ref, f.topic, f.event, f.status = stringRef(texts[0]), stringRef(texts[1]), texts[2], replyEvent, texts[3]
	case binaryPush:
		f.joinRef, f.topic, f.event = stringRef(texts[0]), texts[1], texts[2]
	default:
		f.topic, f.event = texts[0], texts[1]
	}
	return f, nil
}
