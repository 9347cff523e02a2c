package channel

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorilla/websocket"
	"github.com/stretchr/testify/require"
)

func TestPushReturnsTheReply(t *testing.T) {
	tests := []struct {
		name    string
		payload any
		sent    string // as the server saw it
		binary  bool   // the server saw a binary frame
		reply   string // the payload of the server's reply
		want    Reply
	}{
		{name: "struct", payload: struct {
			Demand int `json:"demand"`
		}{3}, sent: `{"demand":3}`, reply: `{"response":{"runs":[]},"status":"ok"}`, want: Reply{Response: []byte(`{"runs":[]}`)}},
		{name: "nothing", payload: nil, sent: `{}`, reply: `{"response":null,"status":"ok"}`, want: Reply{Response: []byte(`null`)}},
		{name: "raw", payload: rawJSON(`{"a": "<&>"}`), sent: `{"a": "<&>"}`, reply: `{"status":"ok"}`, want: Reply{}},
		{name: "no HTML escapes", payload: map[string]string{"a": "<&>"}, sent: `{"a":"<&>"}`, reply: `{"status":"ok","response":"ok"}`, want: Reply{Response: []byte(`"ok"`)}},
		{name: "binary", payload: Binary("\x00\xff"), sent: "\x00\xff", binary: true, reply: `{"status":"ok","response":1}`, want: Reply{Response: []byte(`1`)}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer(t)
				_, topic, p, join := joined(t, s, s.config())
				pushing := asyncPush(topic, "claim", tt.payload)
				f := p.expect("room:1", "claim")
				require.Equal(t, join.Ref, f.JoinRef)
				require.Equal(t, tt.sent, string(f.Payload))
				require.Equal(t, tt.binary, f.Binary)
				p.send(`[%s,%s,"room:1","phx_reply",%s]`, f.JoinRef, f.Ref, tt.reply)
				got := <-pushing
				require.NoError(t, got.err)
				require.Equal(t, tt.want, got.value)
			})
		})
	}
}

func TestPushTakesABinaryReply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		_, topic, p, join := joined(t, s, s.config())
		pushing := asyncPush(topic, "fetch:dataclip", nil)
		f := p.expect("room:1", "fetch:dataclip")
		unquote := func(s string) string { return strings.Trim(s, `"`) }
		joinRef, ref := unquote(string(join.Ref)), unquote(string(f.Ref))
		message := "\x01" + string([]byte{byte(len(joinRef)), byte(len(ref)), 6, 2}) + joinRef + ref + "room:1" + "ok" + `{"data":"ö"}`
		require.NoError(t, p.ws.WriteMessage(websocket.BinaryMessage, []byte(message)))
		got := <-pushing
		require.NoError(t, got.err)
		require.True(t, got.value.Binary)
		var body struct{ Data string }
		require.NoError(t, got.value.Decode(&body))
		require.Equal(t, "ö", body.Data)
	})
}

func TestPushRefused(t *testing.T) {
	tests := []struct {
		name, response, reason string
	}{
		{name: "reason", response: `{"reason":"claim refused"}`, reason: "claim refused"},
		{name: "bare string", response: `"not now"`, reason: "not now"},
		{name: "another shape", response: `{"errors":{"id":["unknown"]}}`, reason: `{"errors":{"id":["unknown"]}}`},
		{name: "long", response: `["` + strings.Repeat("ä", 200) + `"]`, reason: `["` + strings.Repeat("ä", 99) + "…"},
		// With a join_ref it is the application's own answer.
		{name: "unmatched topic said by the application", response: `{"reason":"unmatched topic"}`, reason: "unmatched topic"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer(t)
				_, topic, p, _ := joined(t, s, s.config())
				pushing := asyncPush(topic, "claim", nil)
				p.refuse(p.read(), tt.response)
				got := <-pushing
				var refused *RefusedError
				require.ErrorAs(t, got.err, &refused)
				require.Equal(t, &RefusedError{Topic: "room:1", Event: "claim", Response: rawJSON(tt.response)}, refused)
				require.Equal(t, tt.reason, refused.Reason())
				require.NotErrorIs(t, got.err, ErrNotSent)
				require.NotErrorIs(t, got.err, ErrOutcomeUnknown)
				join, err := topic.Ready(t.Context())
				require.NoError(t, err)
				require.Equal(t, 1, join.Epoch)
			})
		})
	}
}

// Guards against the text frame that is no UTF-8: a server drops the connection
// over it, with every topic, each time that it is sent again. Binary frames hold
// what they like.
func TestPushSendsUTF8(t *testing.T) {
	tests := []struct {
		name    string
		payload any
		sent    string
	}{
		{name: "Go string", payload: "a\xffb", sent: `"a\ufffdb"`},
		{name: "raw", payload: rawJSON("\"a\xffb\""), sent: "\"a\ufffdb\""},
		{name: "raw inside", payload: map[string]json.RawMessage{"a": rawJSON("\"\xed\xa0\x80\"")}, sent: "{\"a\":\"\ufffd\"}"},
		{name: "good", payload: rawJSON(`"ö€😀"`), sent: `"ö€😀"`},
		{name: "binary", payload: Binary("a\xffb"), sent: "a\xffb"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer(t)
				_, topic, p, _ := joined(t, s, s.config())
				pushing := asyncPush(topic, "log", tt.payload)
				f := p.expect("room:1", "log")
				require.Equal(t, tt.sent, string(f.Payload))
				p.ok(f, `{}`)
				require.NoError(t, (<-pushing).err)
			})
		})
	}
}

// One slow caller must not cost the others their connection, nor wait beyond
// its own context.
func TestPushContextBoundsTheWaitForTheWriter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		cfg := s.config()
		cfg.WriteTimeout = 20 * time.Second
		_, topic, p, _ := joined(t, s, cfg)
		stuck := asyncPush(topic, "stuck", nil) // the peer does not read
		synctest.Wait()

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := topic.Push(ctx, "second", nil)
		require.ErrorIs(t, err, ErrNotSent)
		require.ErrorIs(t, err, context.DeadlineExceeded)

		p.ok(p.expect("room:1", "stuck"), `{}`)
		require.NoError(t, (<-stuck).err)
	})
}

func TestWriteDeadlineEndsTheConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		cfg := s.config()
		cfg.WriteTimeout = 3 * time.Second
		_, topic, p, _ := joined(t, s, cfg)
		began := time.Now()
		_, err := topic.Push(t.Context(), "stuck", nil) // the peer does not read
		require.ErrorIs(t, err, ErrNotSent)
		require.Equal(t, 3*time.Second, time.Since(began))
		_ = p.closed()
		s.accept().join("room:1")
	})
}

// Many callers at once: each gets its own reply.
func TestPushesAtOnceGetTheirOwnReplies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		_, topic, p, _ := joined(t, s, s.config())
		const callers, pushes = 20, 50
		errs := make(chan error, callers)
		for caller := range callers {
			go func() {
				for n := range pushes {
					want := caller*1000 + n
					reply, err := topic.Push(context.Background(), "echo", want)
					var got int
					if err == nil {
						err = reply.Decode(&got)
					}
					if err == nil && got != want {
						err = errors.New("someone else's reply")
					}
					if err != nil {
						errs <- err
						return
					}
				}
				errs <- nil
			}()
		}
		for range callers * pushes {
			f := p.expect("room:1", "echo")
			p.ok(f, string(f.Payload))
		}
		for range callers {
			require.NoError(t, <-errs)
		}
	})
}

var _ json.Marshaler = (*counter)(nil)

// counter marshals as 1, 2, 3 …
type counter struct{ n int }

func (c *counter) MarshalJSON() ([]byte, error) {
	c.n++
	return json.Marshal(c.n)
}
