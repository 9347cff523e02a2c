package channel

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorilla/websocket"
	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/channel/frame"
)

// FuzzServer lets a server that has let a client in say anything: some messages, with "\n" or, if
// they are binary, "\xff" between them. Whatever comes, nothing panics or hangs, each push ends
// with one kind of error at most, and the client is there for the next connection.
func FuzzServer(f *testing.F) {
	for _, messages := range []string{
		`["1","2","room:1","phx_reply",{"response":{},"status":"ok"}]`,
		`["1","2","room:1","phx_reply",{"response":{"reason":"no"},"status":"error"}]`,
		`[null,"2","room:1","phx_reply",{"response":{"reason":"unmatched topic"},"status":"error"}]`,
		`["1","2","room:1","phx_reply",{"status":7}]`, `["1","2","room:1","phx_reply",null]`, `["1",2,"room:1","chan_reply_2",{"status":"ok"}]`,
		"[\"1\",null,\"room:1\",\"phx_error\",{}]\n[\"1\",\"2\",\"room:1\",\"phx_reply\",{\"response\":{},\"status\":\"ok\"}]",
		`["1",null,"room:1","phx_close",{}]`, `["1","1","room:1","phx_reply",{"response":{},"status":"error"}]`, `[null,null,"phoenix","heartbeat",{}]`,
		"[null,null,\"room:1\",\"tick\",1]\n[null,null,\"room:1\",\"tick\",2]\n[null,null,\"room:2\",\"tick\",3]", `["1","3","room:1","phx_reply",{"response":{},"status":"ok"}]`,
		`[]`, `{}`, ``, `[1,2,3,4,5]`, `["1","2","room:1","phx_reply",{"response":"` + string(bytes.Repeat([]byte("x"), 3000)) + `","status":"ok"}]`,
	} {
		f.Add([]byte(messages), false)
	}
	f.Add([]byte("\x01\x01\x01\x06\x0212room:1ok{}"), true)
	f.Add([]byte("\x00\x01\x06\x041room:1tick\xff\x02\x06\x04room:1tick7\xff\x05"), true)
	f.Fuzz(func(t *testing.T, messages []byte, binary bool) {
		synctest.Test(t, func(t *testing.T) {
			s := newServer(t)
			cfg := s.config()
			cfg.ReadLimit, cfg.PushBuffer = 2000, 3
			socket, topic, p, _ := joined(t, s, cfg)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			pushing := async(func() (Reply, error) { return topic.Push(ctx, "event", nil) })
			p.expect("room:1", "event")

			kind, between := websocket.TextMessage, []byte("\n")
			if binary {
				kind, between = websocket.BinaryMessage, []byte("\xff")
			}
			for message := range bytes.SplitSeq(messages, between) {
				_ = p.ws.WriteMessage(kind, message)
			}
			synctest.Wait()
			_ = p.ws.Close()
			err := (<-pushing).err
			kinds := 0
			for _, is := range []bool{errors.Is(err, ErrNotSent), errors.Is(err, ErrOutcomeUnknown), errors.As(err, new(*RefusedError))} {
				if is {
					kinds++
				}
			}
			require.True(t, kinds == 1 || kinds == 0 && err == nil, "%v", err)
			for len(topic.Messages()) > 0 {
				m := <-topic.Messages()
				require.LessOrEqual(t, len(m.Payload), 2000)
			}
			// What is next to it is on the next connection, unless the server has put an end to it.
			if topic.Err() == nil {
				p = s.accept()
				f := p.next()
				require.Equal(t, frame.Join, f.Event)
			}
			require.NoError(t, socket.Close())
		})
	})
}
