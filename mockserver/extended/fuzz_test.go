package extended_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/channel/frame"
	"github.com/phxworker/phxworker/internal/mocktest"
	"github.com/phxworker/phxworker/mockserver"
)

// FuzzExtendedEvents sends payloads of extension events, and of joins. Whatever comes, the
// topic answers or crashes, and the connection and the run's owner survive it.
func FuzzExtendedEvents(f *testing.F) {
	events := []string{"phx_join", "claim", "run:release", "worker:status"}
	for i, payload := range []string{
		`{"extensions":{"lease":1}}`, `{"demand":1,"worker_name":null,"wait_ms":1}`,
		`{"id":"r1","token":"x","reason":"requeue","delay_ms":1e3}`, status,
	} {
		for range events {
			f.Add(i, payload)
		}
	}
	for _, payload := range []string{`null`, `[]`, `{}`, `{"extensions":[]}`, `{"extensions":{"drain":-1,"lease":1e99}}`, `{"demand":1,"worker_name":1,"wait_ms":"1"}`} {
		f.Add(0, payload)
		f.Add(1, payload)
	}
	f.Fuzz(func(t *testing.T, i int, payload string) {
		if !json.Valid([]byte(payload)) || string(frame.Portable([]byte(payload))) != payload {
			return // ends the connection, in any mode
		}
		m := newServer(t, mockserver.Config{Mode: mockserver.Extended, OpaqueTokens: true, MaxWait: 1})
		m.Queue(mockserver.Run{Plan: mocktest.Plan("r1")})
		c := m.Connect()
		require.Equal(t, "ok", c.Join("worker:queue", `{"extensions":{`+everyQueueExtension+`}}`).Status)
		r := c.Claim(`{"demand":1,"worker_name":"w"}`)[0]
		got := c.Exchange("worker:queue", events[uint(i)%uint(len(events))], payload)
		require.True(t, got.IsReply() || got.Event == frame.Error)
		require.Equal(t, "ok", c.Join("run:r1", `{"token":"`+r.Token+`"}`).Status)
		c.OK("run:r1", "run:complete", `{"reason":"success"}`)
	})
}
