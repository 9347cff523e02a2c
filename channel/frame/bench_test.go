package frame

import (
	"encoding/json"
	"testing"
)

var message = []byte(`["4","7","worker:queue","phx_reply",{"response":{"runs":[{"id":"0f342527-c67c-4de7-9770-9078b9b8cbb1","token":"eyJhbGciOiJSUzI1NiJ9"}]},"status":"ok"}]`)

func BenchmarkDecode(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Decode(message, false); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkDecodeJSON is the baseline: the same message by encoding/json alone.
func BenchmarkDecodeJSON(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		var parts [5]json.RawMessage
		if err := json.Unmarshal(message, &parts); err != nil {
			b.Fatal(err)
		}
		var topic, event string
		var body struct {
			Status   string
			Response json.RawMessage
		}
		if json.Unmarshal(parts[2], &topic) != nil || json.Unmarshal(parts[3], &event) != nil || json.Unmarshal(parts[4], &body) != nil {
			b.Fatal("broken")
		}
	}
}

func BenchmarkAppend(b *testing.B) {
	b.ReportAllocs()
	f := Frame{JoinRef: NewRef(4), Ref: NewRef(7), Topic: "worker:queue", Event: "claim", Payload: []byte(`{"demand":1}`)}
	var buf []byte
	for b.Loop() {
		buf, _ = Append(buf[:0], &f)
	}
}
