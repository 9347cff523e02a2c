package phoenix

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

func BenchmarkPush(b *testing.B) {
	for _, transcript := range []*Transcript{nil, NewTranscript(1000)} {
		b.Run(fmt.Sprintf("transcript=%v", transcript != nil), func(b *testing.B) {
			b.ReportAllocs()
			s := benchSocket(b, transcript)
			message := []byte(`["1","7","run:a","run:start",{"timestamp":"1795168192891559"}]`)
			for b.Loop() {
				s.buf.Reset()
				s.buf.Write(message)
				s.receive(false)
				_, _, _, _ = s.out.take(batch{})
			}
		})
	}
	b.Run("baseline=json", func(b *testing.B) {
		b.ReportAllocs()
		message := []byte(`["1","7","run:a","run:start",{"timestamp":"1795168192891559"}]`)
		for b.Loop() {
			var in []json.RawMessage
			_ = json.Unmarshal(message, &in)
			_, _ = json.Marshal([]any{"1", "7", "run:a", "phx_reply", map[string]any{"response": nil, "status": "ok"}})
		}
	})
}

// benchSocket is a socket with a topic joined and no connection.
func benchSocket(b *testing.B, transcript *Transcript) *socket {
	b.Helper()
	e, err := NewEndpoint(Config{App: &recorderApp{}, Transcript: transcript})
	require.NoError(b, err)
	s := newSocket(e, nil, nil, "", nil)
	s.buf.WriteString(`["1","1","run:a","phx_join",{"token":"x"}]`)
	s.receive(false)
	require.Len(b, s.topics, 1)
	return s
}
