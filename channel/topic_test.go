package channel

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorilla/websocket"
	"github.com/stretchr/testify/require"
)

func TestCrashedTopicJoinsAgainWithBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		_, topic, p, join := joined(t, s, s.config())
		began := time.Now()
		const crashes = 20
		for n := range crashes {
			p.send(`[%s,%s,"room:1","phx_error",{}]`, join.Ref, join.Ref)
			join = p.join("room:1")
			if n == 0 {
				require.Zero(t, time.Since(began)) // the first retry is at once
			}
		}
		// Without waits it would be a hot loop; their mean is half of the limit.
		require.Greater(t, time.Since(began), 90*time.Second)
		now, err := topic.Ready(t.Context())
		require.NoError(t, err)
		require.Equal(t, 1+crashes, now.Epoch)

		time.Sleep(steady)
		crashed := time.Now()
		p.send(`[%s,%s,"room:1","phx_error",{}]`, join.Ref, join.Ref)
		p.join("room:1")
		require.Zero(t, time.Since(crashed))
	})
}

func TestStaleFramesAreIgnored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		socket, topic, p, first := joined(t, s, s.config())
		p.send(`[%s,%s,"room:1","phx_error",{}]`, first.Ref, first.Ref)
		second := p.join("room:1")
		join, err := topic.Ready(t.Context())
		require.NoError(t, err)
		require.Equal(t, 2, join.Epoch)

		p.send(`[%s,%s,"room:1","phx_close",{}]`, first.Ref, first.Ref)
		p.send(`[%s,%s,"room:1","phx_error",{}]`, first.Ref, first.Ref)
		p.send(`[%s,null,"room:1","stale",{}]`, first.Ref)
		p.send(`[null,null,"room:2","other topic",{}]`)
		p.send(`[null,"77","room:1","phx_reply",{"response":{},"status":"ok"}]`)
		p.send(`[%s,null,"room:1","mine",{}]`, second.Ref)
		p.send(`[null,null,"room:1","broadcast",{}]`)
		p.send(`[null,"","room:1","lightning-mock","{}"]`)
		for _, event := range []string{"mine", "broadcast", "lightning-mock"} {
			require.Equal(t, event, (<-topic.Messages()).Event)
		}
		require.Equal(t, Stats{Unknown: 2, Stale: 2}, socket.Stats())
		again, err := topic.Ready(t.Context())
		require.NoError(t, err)
		require.Same(t, join, again)
	})
}

func TestTopicEnds(t *testing.T) {
	tests := []struct {
		name string
		end  func(s *server, p *peer, joinRef string)
		is   error
		as   string // the reason of a RefusedError
	}{
		{name: "closed by the server", is: ErrEnded, end: func(_ *server, p *peer, ref string) {
			p.send(`[%s,%s,"room:1","phx_close",{}]`, ref, ref)
		}},
		// Guards against retrying for ever with a token that has expired.
		{name: "not let in again after a reconnect", as: "unauthorized", end: func(s *server, p *peer, _ string) {
			p.drop()
			p = s.accept()
			p.refuse(p.expect("room:1", "phx_join"), `{"reason":"unauthorized"}`)
		}},
		{name: "not let in again after a crash", as: "not_found", end: func(_ *server, p *peer, ref string) {
			p.send(`[%s,%s,"room:1","phx_error",{}]`, ref, ref)
			p.refuse(p.expect("room:1", "phx_join"), `{"reason":"not_found"}`)
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer(t)
				_, topic, p, join := joined(t, s, s.config())
				require.NoError(t, topic.Err())
				tt.end(s, p, string(join.Ref))
				<-topic.Done()
				var refused *RefusedError
				if tt.is != nil {
					require.ErrorIs(t, topic.Err(), tt.is)
				} else {
					require.ErrorAs(t, topic.Err(), &refused)
					require.Equal(t, tt.as, refused.Reason())
				}
				_, err := topic.Push(t.Context(), "claim", nil)
				require.ErrorIs(t, err, ErrNotSent)
				require.ErrorIs(t, err, topic.Err())
				_, err = topic.Ready(t.Context())
				require.ErrorIs(t, err, topic.Err())
				require.NoError(t, topic.Leave(t.Context())) // nothing is left to leave
			})
		})
	}
}

// Guards against a client that looks alive and is on its topic never again, because the server would
// not let it in once.
func TestAKeptTopicEndsOnlyWhenItIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		socket := s.open(s.config())
		topic, err := socket.Keep("room:1", nil)
		require.NoError(t, err)
		_, err = socket.Keep("room:1", nil)
		require.ErrorIs(t, err, ErrTaken)
		p := s.accept()
		p.refuse(p.expect("room:1", "phx_join"), `{"reason":"unauthorized"}`)
		join := p.join("room:1")
		p.send(`[%s,%s,"room:1","phx_close",{}]`, join.Ref, join.Ref)
		p.join("room:1")
		now, err := topic.Ready(t.Context())
		require.NoError(t, err)
		require.Equal(t, 2, now.Epoch)
		require.NoError(t, topic.Err())
		p.drop()
		p = s.accept()
		p.refuse(p.expect("room:1", "phx_join"), `{"reason":"unauthorized"}`)
		p.expect("room:1", "phx_join")
		require.NoError(t, topic.Leave(t.Context()))
		require.ErrorIs(t, topic.Err(), ErrLeft)
	})
}

// Guards against a topic that loses its place to a newer one after a reconnect,
// on a server that takes few topics a connection.
func TestATopicWaitsForAPlaceAfterAReconnect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		_, topic, p, _ := joined(t, s, s.config())
		p.drop()
		p = s.accept()
		for range 3 {
			p.refuse(p.expect("room:1", "phx_join"), `{"reason":"too many channels joined"}`)
		}
		p.join("room:1")
		join, err := topic.Ready(t.Context())
		require.NoError(t, err)
		require.Equal(t, 2, join.Epoch)
	})
}

func TestLeave(t *testing.T) {
	tests := []struct {
		name   string
		answer string // the payload of the reply
	}{
		{name: "phoenix", answer: `{"response":{},"status":"ok"}`},
		{name: "lightning-mock", answer: `{"status":"error","response":"There are no listeners on channel room:1"}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer(t)
				socket, topic, p, join := joined(t, s, s.config())
				pushing := asyncPush(topic, "claim", nil)
				claim := p.expect("room:1", "claim")
				leaving := async(func() (int, error) { return 0, topic.Leave(context.Background()) })
				f := p.expect("room:1", "phx_leave")
				require.Equal(t, join.Ref, f.JoinRef)

				_, err := topic.Push(t.Context(), "too late", nil)
				require.ErrorIs(t, err, ErrNotSent)
				p.ok(claim, `"in time"`) // what is in flight is still answered
				require.NoError(t, (<-pushing).err)
				p.send(`[%s,%s,"room:1","phx_reply",%s]`, f.JoinRef, f.Ref, tt.answer)
				p.send(`[%s,%s,"room:1","phx_close",{}]`, join.Ref, join.Ref)
				require.NoError(t, (<-leaving).err)
				require.ErrorIs(t, topic.Err(), ErrLeft)
				require.NoError(t, topic.Leave(t.Context()))

				joining := asyncJoin(socket, "room:1", nil)
				p.join("room:1")
				require.NoError(t, (<-joining).err)
				require.Zero(t, socket.Stats())
			})
		})
	}
}

func TestLeaveNeedsNoAnswer(t *testing.T) {
	tests := []struct {
		name  string
		after func(p *peer, joinRef string)
		took  time.Duration
	}{
		{name: "the connection is lost", after: func(p *peer, _ string) { p.drop() }},
		{name: "closed first", after: func(p *peer, ref string) { p.send(`[%s,%s,"room:1","phx_close",{}]`, ref, ref) }},
		{name: "silence", after: func(*peer, string) {}, took: 10 * time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer(t)
				_, topic, p, join := joined(t, s, s.config())
				pushing := async(func() (Reply, error) { return topic.Push(context.Background(), "slow", nil) })
				p.expect("room:1", "slow")
				began := time.Now()
				leaving := async(func() (int, error) { return 0, topic.Leave(context.Background()) })
				p.expect("room:1", "phx_leave")
				tt.after(p, string(join.Ref))
				require.NoError(t, (<-leaving).err)
				require.Equal(t, tt.took, time.Since(began))
				require.ErrorIs(t, (<-pushing).err, ErrOutcomeUnknown)
				require.Equal(t, tt.took, time.Since(began), "nothing waits under the join any more")
				require.ErrorIs(t, topic.Err(), ErrLeft)
			})
		})
	}
}

func TestLeaveWhileOffline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		socket, topic, p, _ := joined(t, s, s.config())
		s.refuse.Store(503)
		p.close(websocket.CloseServiceRestart)
		synctest.Wait()
		require.NoError(t, topic.Leave(t.Context()))
		s.refuse.Store(0)
		p = s.accept()
		joining := asyncJoin(socket, "room:2", nil)
		p.join("room:2") // and not room:1
		require.NoError(t, (<-joining).err)
	})
}

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
		sizes := []int{10, 5000, reusable + 1, 20, 3 * reusable, 30}
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
