package frame

import (
	"encoding/json"
	"testing"
)

// FuzzDecode looks for messages that panic, and for ones that change their
// meaning when they are encoded and decoded again.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(`["4","7","worker:queue","phx_reply",{"response":{"runs":[]},"status":"ok"}]`), false)
	f.Add([]byte(`[null,"","worker:queue","work-available","{}"]`), false)
	f.Add([]byte(`[98,99,"a\u00e9","e",null]`), false)
	f.Add([]byte("\x01\x02\x02\x0c\x021214run:r-manualok{}"), true)
	f.Add([]byte("\x02\x01\x01teXYZ"), true)
	f.Fuzz(func(t *testing.T, data []byte, binary bool) {
		for _, decode := range []func([]byte, bool) (Frame, error){Decode, DecodePush} {
			first, err := decode(data, binary)
			if err != nil {
				continue
			}
			checkHead(t, &first, data, binary)
			if !binary && first.Payload != nil && !json.Valid(first.Payload) {
				continue // delimited only; see Decode
			}
			if binary && data[0] == kindPush && first.Ref == "" {
				continue // a push without a ref encodes as what a server sends
			}
			if first.IsReply() && first.Status == "" {
				continue // a client's event that is called like a reply
			}
			encoded, err := Append(nil, &first)
			if err != nil {
				t.Fatalf("cannot encode what was decoded: %v", err)
			}
			second, err := decode(encoded, binary)
			if err != nil {
				t.Fatalf("cannot decode what was encoded: %v: %q", err, encoded)
			}
			if first.Topic != second.Topic || first.Event != second.Event || first.Status != second.Status ||
				first.JoinRef != second.JoinRef || first.Ref != second.Ref {
				t.Fatalf("%q became %q", data, encoded)
			}
		}
	})
}

// checkHead holds what is read of the beginning of a message to what is read of the whole.
func checkHead(t *testing.T, whole *Frame, data []byte, binary bool) {
	t.Helper()
	of, err := Decode(data, binary)
	if err != nil || of.Event != whole.Event || of.Ref != whole.Ref {
		return // what only a client sends
	}
	head, err := DecodeHead(data[:len(data)-len(whole.Payload)/2], binary)
	if err != nil || head.Topic != of.Topic || head.Event != of.Event || head.Ref != of.Ref || head.JoinRef != of.JoinRef || head.Payload != nil {
		t.Fatalf("the head of %q is %+v (%v)", data, head, err)
	}
}
