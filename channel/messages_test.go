package channel

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/gorilla/websocket"
	"github.com/stretchr/testify/require"
)

func TestMessagesComeInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		cfg := s.config()
		cfg.PushBuffer = 1000
		_, topic, p, join := joined(t, s, cfg)
		const sent = 1000
		go func() {
			for n := range sent {
				if n%3 == 0 { // a binary push of the server
					ref := strings.Trim(string(join.Ref), `"`)
					message := "\x00" + string([]byte{byte(len(ref)), 6, 4}) + ref + "room:1" + "tick" + fmt.Sprint(n)
					_ = p.ws.WriteMessage(websocket.BinaryMessage, []byte(message))
					continue
				}
				_ = p.ws.WriteMessage(websocket.TextMessage, fmt.Appendf(nil, `[null,null,"room:1","tick",%d]`, n))
			}
		}()
		for n := range sent {
			m := <-topic.Messages()
			var got int
			require.NoError(t, m.Decode(&got))
			require.Equal(t, n, got)
			require.Equal(t, n%3 == 0, m.Binary)
			require.Zero(t, m.Missed)
		}
	})
}

// A reader of messages that is slow costs itself messages, and nobody else
// anything.
func TestMessagesBeyondTheBufferAreMissed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		cfg := s.config()
		cfg.PushBuffer = 3
		socket, topic, p, _ := joined(t, s, cfg)
		for n := range 10 {
			p.send(`[null,null,"room:1","tick",%d]`, n)
		}
		pushing := asyncPush(topic, "claim", nil)
		p.ok(p.read(), `{}`)
		require.NoError(t, (<-pushing).err)

		for n := range 3 {
			m := <-topic.Messages()
			require.Equal(t, fmt.Sprint(n), string(m.Payload))
			require.Zero(t, m.Missed)
		}
		p.send(`[null,null,"room:1","tick",10]`)
		m := <-topic.Messages()
		require.Equal(t, Message{Join: m.Join, Event: "tick", Payload: []byte("10"), Missed: 7}, m)
		require.EqualValues(t, 7, socket.Stats().Missed)
		p.send(`[null,null,"room:1","tick",11]`)
		require.Zero(t, (<-topic.Messages()).Missed)
	})
}

// Payloads belong to who received them, though the read buffer is used again.
func TestPayloadsAreNotOverwritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		_, topic, p, _ := joined(t, s, s.config())
		sizes := []int{10, 5000, kept + 1, 20, 3 * kept, 30}
		for n, size := range sizes {
			p.send(`[null,null,"room:1","tick",%q]`, strings.Repeat(fmt.Sprint(n), size))
		}
		for n, size := range sizes {
			var got string
			require.NoError(t, (<-topic.Messages()).Decode(&got))
			require.Equal(t, strings.Repeat(fmt.Sprint(n), size), got)
		}
	})
}
