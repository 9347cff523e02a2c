package phoenix

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorilla/websocket"
	"github.com/stretchr/testify/require"
)

func TestIdleSocketIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, Config{})
		start := time.Now()

		silent := s.dial(websocket.Dialer{})
		silent.join()
		require.Equal(t, 1000, silent.closed())
		require.Equal(t, 60*time.Second, time.Since(start))

		beating := s.dial(websocket.Dialer{})
		for range 4 {
			time.Sleep(45 * time.Second)
			beating.send(`[null,"1","phoenix","heartbeat",{}]`)
			beating.expect(`[null,"1","phoenix","phx_reply",{"response":{},"status":"ok"}]`)
		}
		start = time.Now()
		require.Equal(t, 1000, beating.closed())
		require.Equal(t, 60*time.Second, time.Since(start))

		synctest.Wait()
		require.Equal(t, []string{"worker:queue"}, s.app.leftTopics())
	})
}

// The recordings, section 16: a message over the limit ends the connection with
// no close frame. What is compressed counts as what it is, as with Cowboy.
func TestMessageOverTheLimit(t *testing.T) {
	heartbeat := func(size int) string {
		return `[null,"1","phoenix","heartbeat",{"pad":"` + strings.Repeat("x", size) + `"}]`
	}
	const answer = `[null,"1","phoenix","phx_reply",{"response":{},"status":"ok"}]`
	t.Run("just below", func(t *testing.T) {
		c := newServer(t, Config{}).dial(websocket.Dialer{})
		c.send(heartbeat(10_900_000))
		c.expect(answer)
	})
	t.Run("above", func(t *testing.T) {
		c := newServer(t, Config{}).dial(websocket.Dialer{})
		_ = c.WriteMessage(websocket.TextMessage, []byte(heartbeat(11_100_000))) // cut off half way
		require.Equal(t, 1006, c.closed())
	})
	t.Run("above, in fragments", func(t *testing.T) {
		c := newServer(t, Config{MaxFrame: 1000}).dial(websocket.Dialer{WriteBufferSize: 300})
		w, err := c.NextWriter(websocket.TextMessage)
		require.NoError(t, err)
		_, err = io.WriteString(w, heartbeat(1000))
		if err == nil {
			_ = w.Close()
		}
		require.Equal(t, 1006, c.closed())
	})
	t.Run("below, and compressed", func(t *testing.T) {
		c := newServer(t, Config{}).dial(websocket.Dialer{EnableCompression: true})
		c.EnableWriteCompression(true)
		c.send(heartbeat(10_900_000))
		c.expect(answer)
	})
	t.Run("above, but compressed below", func(t *testing.T) {
		c := newServer(t, Config{}).dial(websocket.Dialer{EnableCompression: true})
		c.EnableWriteCompression(true)
		_ = c.WriteMessage(websocket.TextMessage, []byte(heartbeat(11_100_000)))
		require.Equal(t, 1006, c.closed())
	})
	t.Run("compressed, and endless when unpacked", func(t *testing.T) {
		c := newServer(t, Config{MaxFrame: 10_000}).dial(websocket.Dialer{EnableCompression: true})
		c.EnableWriteCompression(true)
		_ = c.WriteMessage(websocket.TextMessage, []byte(heartbeat(1_000_000)))
		require.Equal(t, 1006, c.closed())
	})
}

func TestTooManyTopics(t *testing.T) {
	c := newServer(t, Config{}).dial(websocket.Dialer{})
	c.join()
	for i := 1; i <= 99; i++ {
		c.send(fmt.Sprintf(`["%d","%d","run:%d","phx_join",{"token":"x"}]`, i+1, i+1, i))
		c.expect(fmt.Sprintf(`["%d","%d","run:%d","phx_reply",{"response":{},"status":"ok"}]`, i+1, i+1, i))
	}
	c.send(`["200","200","run:100","phx_join",{"token":"x"}]`)
	c.expect(`["200","200","run:100","phx_reply",{"response":{"reason":"too many channels joined"},"status":"error"}]`)
	// Joining again takes no further place, and leaving gives one back.
	c.send(`["201","201","run:1","phx_join",{"token":"x"}]`)
	c.expect(`["201","201","run:1","phx_reply",{"response":{},"status":"ok"}]`)
	c.expect(`["2","2","run:1","phx_close",{}]`)
	c.send(`["201","202","run:1","phx_leave",{}]`)
	c.expect(`["201","202","run:1","phx_reply",{"response":{},"status":"ok"}]`)
	c.expect(`["201","201","run:1","phx_close",{}]`)
	c.send(`["203","203","run:100","phx_join",{"token":"x"}]`)
	c.expect(`["203","203","run:100","phx_reply",{"response":{},"status":"ok"}]`)
}

func TestMalformedMessagesCloseTheSocket(t *testing.T) {
	tests := []struct {
		name    string
		kind    int
		message string
	}{
		{name: "no JSON", kind: websocket.TextMessage, message: "not json"},
		{name: "four elements", kind: websocket.TextMessage, message: `["1","1","worker:queue","phx_join"]`},
		{name: "broken payload", kind: websocket.TextMessage, message: `["1","1","worker:queue","phx_join",{"a":]`},
		{name: "topic is no string", kind: websocket.TextMessage, message: `["1","1",7,"phx_join",{}]`},
		{name: "object", kind: websocket.TextMessage, message: `{"topic":"phoenix","event":"heartbeat"}`},
		{name: "unknown kind", kind: websocket.BinaryMessage, message: "\xff\x01\x02"},
		{name: "lengths beyond the end", kind: websocket.BinaryMessage, message: "\x00\xff\xff\xff\xffabc"},
		{name: "empty", kind: websocket.BinaryMessage, message: ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := newServer(t, Config{}).dial(websocket.Dialer{})
			require.NoError(t, c.WriteMessage(tt.kind, []byte(tt.message)))
			require.Equal(t, 1011, c.closed())
		})
	}
}
