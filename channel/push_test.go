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

// The pushes in flight when their join is lost may or may not have been
// handled: the server's channel was there when they were written.
func TestPushOutcomeUnknown(t *testing.T) {
	tests := []struct {
		name string
		lose func(p *peer, joinRef string)
	}{
		{name: "connection dropped", lose: func(p *peer, _ string) { p.drop() }},
		{name: "connection closed", lose: func(p *peer, _ string) { p.close(websocket.CloseServiceRestart) }},
		{name: "channel crashed", lose: func(p *peer, ref string) { p.send(`[%s,%s,"room:1","phx_error",{}]`, ref, ref) }},
		{name: "channel closed", lose: func(p *peer, ref string) { p.send(`[%s,%s,"room:1","phx_close",{}]`, ref, ref) }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer(t)
				_, topic, p, join := joined(t, s, s.config())
				pushing := asyncPush(topic, "claim", nil)
				p.expect("room:1", "claim")
				tt.lose(p, string(join.Ref))
				got := <-pushing
				require.ErrorIs(t, got.err, ErrOutcomeUnknown)
				require.NotErrorIs(t, got.err, ErrNotSent)
			})
		})
	}
}

func TestPushOutcomeUnknownWhenItsContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		socket, topic, p, _ := joined(t, s, s.config())
		why := errors.New("no patience")
		ctx, cancel := context.WithTimeoutCause(t.Context(), 3*time.Second, why)
		defer cancel()
		pushing := async(func() (Reply, error) { return topic.Push(ctx, "claim", nil) })
		f := p.read()
		got := <-pushing
		require.ErrorIs(t, got.err, ErrOutcomeUnknown)
		require.ErrorIs(t, got.err, why)

		// The late reply has nobody to go to, and confuses nobody.
		p.ok(f, `"late"`)
		again := asyncPush(topic, "claim", nil)
		p.ok(p.read(), `"mine"`)
		second := <-again
		require.NoError(t, second.err)
		require.Equal(t, `"mine"`, string(second.value.Response))
		require.EqualValues(t, 1, socket.Stats().Unknown)
	})
}

// Whatever the reason for not sending, nothing reaches the wire and the
// topic is unaffected.
func TestPushNotSent(t *testing.T) {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	tests := []struct {
		name    string
		ctx     context.Context
		payload any
		is      error
	}{
		{name: "context ended before", ctx: ended, is: context.Canceled},
		{name: "raw payload that is no JSON", ctx: context.Background(), payload: rawJSON(`{"a":`), is: ErrPayload},
		{name: "raw JSON inside that is none", ctx: context.Background(), payload: []json.RawMessage{rawJSON("oops")}, is: ErrPayload},
		{name: "payload that does not marshal", ctx: context.Background(), payload: func() {}, is: ErrPayload},
		{name: "too large", ctx: context.Background(), payload: strings.Repeat("x", 2000)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer(t)
				cfg := s.config()
				cfg.MaxFrame = 1000
				_, topic, p, _ := joined(t, s, cfg)
				_, err := topic.Push(tt.ctx, "claim", tt.payload)
				require.ErrorIs(t, err, ErrNotSent)
				require.NotErrorIs(t, err, ErrOutcomeUnknown)
				if tt.is != nil {
					require.ErrorIs(t, err, tt.is)
				}
				pushing := asyncPush(topic, "next", nil)
				p.ok(p.expect("room:1", "next"), `{}`)
				require.NoError(t, (<-pushing).err)
			})
		})
	}
}

// Guards against the payload that fits but whose message, once encoded,
// overflows the server's limit and costs every topic its connection.
func TestPushMeasuresTheEncodedMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		cfg := s.config()
		cfg.MaxFrame = 1000
		_, topic, p, _ := joined(t, s, cfg)
		_, err := topic.Push(t.Context(), "log", strings.Repeat("\n", 490)) // two bytes each, as JSON
		var tooLarge *TooLargeError
		require.ErrorAs(t, err, &tooLarge)
		require.Equal(t, &TooLargeError{Topic: "room:1", Event: "log", Size: 490*2 + len(`["1","2","room:1","log",""]`), Limit: 1000}, tooLarge)

		exactly := strings.Repeat("x", 1000-len(`["1","3","room:1","log",""]`))
		pushing := asyncPush(topic, "log", exactly)
		p.ok(p.expect("room:1", "log"), `{}`)
		require.NoError(t, (<-pushing).err)
	})
}

// The server lost the channel without a word. It did not handle the push.
func TestAPushWaitsUntilTheTopicIsJoined(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		_, topic, p, _ := joined(t, s, s.config())
		p.drop()
		pushing := async(func() (Reply, error) { return topic.PushWhenReady(t.Context(), "shout", "hi") })
		p = s.accept()
		p.join("room:1")
		f := p.expect("room:1", "shout")
		p.send(`[null,%s,"room:1","phx_reply",{"status":"error","response":{"reason":"unmatched topic"}}]`, f.Ref)
		p.join("room:1") // the server did not hold it as joined: nothing was done
		p.ok(p.expect("room:1", "shout"), `"hi"`)
		got := <-pushing
		require.NoError(t, got.err)
		require.Equal(t, `"hi"`, string(got.value.Response))
	})
}

// Whoever pushes when the topic is ready has the three bad endings of any push.
func TestAPushThatWaitedTellsItsEndings(t *testing.T) {
	tests := []struct {
		name  string
		do    func(p *peer, topic *Topic)
		check func(t *testing.T, err error)
	}{
		{name: "never ready", do: func(p *peer, _ *Topic) { p.drop(); time.Sleep(time.Minute) }, check: func(t *testing.T, err error) {
			require.ErrorIs(t, err, ErrNotSent)
			require.ErrorIs(t, err, context.DeadlineExceeded)
		}},
		{name: "left meanwhile", do: func(p *peer, topic *Topic) { p.drop(); _ = topic.Leave(context.Background()) }, check: func(t *testing.T, err error) {
			require.ErrorIs(t, err, ErrNotSent)
			require.ErrorIs(t, err, ErrLeft)
		}},
		{name: "lost after it was written", do: func(p *peer, _ *Topic) { p.expect("room:1", "shout"); p.drop() }, check: func(t *testing.T, err error) {
			require.ErrorIs(t, err, ErrOutcomeUnknown)
		}},
		{name: "refused", do: func(p *peer, _ *Topic) { p.refuse(p.expect("room:1", "shout"), `{"reason":"no"}`) }, check: func(t *testing.T, err error) {
			require.ErrorAs(t, err, new(*RefusedError))
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer(t)
				_, topic, p, _ := joined(t, s, s.config())
				ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
				defer cancel()
				pushing := async(func() (Reply, error) { return topic.PushWhenReady(ctx, "shout", "hi") })
				tt.do(p, topic)
				tt.check(t, (<-pushing).err)
			})
		})
	}
	t.Run("its context is over, and the topic ready", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newServer(t)
			_, topic, _, _ := joined(t, s, s.config())
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			_, err := topic.PushWhenReady(ctx, "shout", "hi")
			require.ErrorIs(t, err, ErrNotSent)
			require.ErrorIs(t, err, context.Canceled)
		})
	})
	t.Run("what can never be sent", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newServer(t)
			_, topic, _, _ := joined(t, s, s.config())
			_, err := topic.PushWhenReady(t.Context(), "shout", rawJSON(`{`))
			require.ErrorIs(t, err, ErrPayload)
		})
	})
}

func TestPushOnUnmatchedTopicJoinsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		_, topic, p, first := joined(t, s, s.config())
		pushing := asyncPush(topic, "claim", nil)
		f := p.read()
		p.send(`[null,%s,"room:1","phx_reply",{"response":{"reason":"unmatched topic"},"status":"error"}]`, f.Ref)
		got := <-pushing
		require.ErrorIs(t, got.err, ErrNotSent)

		second := p.join("room:1")
		require.NotEqual(t, first.Ref, second.Ref)
		join, err := topic.Ready(t.Context())
		require.NoError(t, err)
		require.Equal(t, 2, join.Epoch)
	})
}

// Guards against a push that waited for the writer while its join was lost,
// and then went out under the next one: Phoenix accepts a stale join_ref.
func TestPushIsNotSentUnderALaterJoin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		_, topic, p, join := joined(t, s, s.config())
		j := topic.current().join
		j.conn.token <- struct{}{} // someone is writing
		pushing := asyncPush(topic, "claim", nil)
		synctest.Wait()
		p.send(`[%s,%s,"room:1","phx_error",{}]`, join.Ref, join.Ref)
		synctest.Wait()
		<-j.conn.token
		require.ErrorIs(t, (<-pushing).err, ErrNotSent)
		p.join("room:1")
	})
}
