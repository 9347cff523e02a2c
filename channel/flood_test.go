package channel

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

// Guards against a server that fills the client's memory with what nobody has asked for: a hundred
// topics have room for 64 messages each, of up to 64 MiB.
func TestMessagesThatWaitForTheirReadersAreBoundedTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		socket := s.open(s.config())
		p := s.accept()
		var topics []*Topic
		for n := range 10 {
			name := fmt.Sprintf("room:%d", n)
			joining := asyncJoin(socket, name, nil)
			p.ok(p.expect(name, "phx_join"), `{}`)
			got := <-joining
			require.NoError(t, got.err)
			topics = append(topics, got.value)
		}
		payload := strings.Repeat("x", 1<<20)
		for range 5 {
			for _, topic := range topics {
				p.send(`[null,null,%q,"tick",%q]`, topic.Name(), payload)
			}
		}
		p.send(`[null,null,"room:9","tick","small"]`)
		synctest.Wait()
		bytes, last := 0, ""
		for _, topic := range topics {
			for len(topic.Messages()) > 0 {
				m := <-topic.Messages()
				bytes, last = bytes+len(m.Payload), string(m.Payload)
			}
		}
		require.LessOrEqual(t, bytes, 16<<20)
		require.Greater(t, bytes, 14<<20)
		require.Equal(t, `"small"`, last, "there is always room for what is small")
		require.EqualValues(t, 10*5-15, socket.Stats().Missed)

		p.send(`[null,null,"room:0","tick","%s%[1]s%[1]s"]`, strings.Repeat(payload, 6)) // alone, it may be as large as it likes
		require.Len(t, (<-topics[0].Messages()).Payload, 18<<20+2)
	})
}
