package channel

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/channel/frame"
)

func TestJoinRefused(t *testing.T) {
	tests := []struct {
		name, response, reason string
		unmatched              bool
	}{
		{name: "unauthorized", response: `{"reason":"unauthorized"}`, reason: "unauthorized"},
		{name: "too many topics", response: `{"reason":"too many channels joined"}`, reason: "too many channels joined"},
		{name: "no such channel", response: `{"reason":"unmatched topic"}`, reason: "unmatched topic", unmatched: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer(t)
				socket := s.open(s.config())
				p := s.accept()
				joining := asyncJoin(socket, "room:1", nil)
				f := p.expect("room:1", "phx_join")
				if tt.unmatched {
					f.JoinRef = ""
				}
				p.refuse(f, tt.response)
				got := <-joining
				var refused *RefusedError
				require.ErrorAs(t, got.err, &refused)
				require.Equal(t, "phx_join", refused.Event)
				require.Equal(t, tt.reason, refused.Reason())

				// The name is free, and the connection unharmed.
				joining = asyncJoin(socket, "room:1", nil)
				p.join("room:1")
				require.NoError(t, (<-joining).err)
			})
		})
	}
}

// A crash and a silence may pass, so they are tried again.
func TestJoinIsTriedAgain(t *testing.T) {
	tests := []struct {
		name   string
		answer func(s *server) func(*peer)
	}{
		{name: "join crashed", answer: func(*server) func(*peer) {
			return func(p *peer) { p.refuse(p.expect("room:1", "phx_join"), `{"reason":"join crashed"}`) }
		}},
		{name: "no answer", answer: func(*server) func(*peer) {
			return func(p *peer) { p.expect("room:1", "phx_join"); time.Sleep(10 * time.Second) }
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer(t)
				socket := s.open(s.config())
				p := s.accept()
				joining := asyncJoin(socket, "room:1", nil)
				for range 5 {
					tt.answer(s)(p)
				}
				p.join("room:1")
				require.NoError(t, (<-joining).err)
			})
		})
	}
}

// A join that was not answered in time does not count any more, though the
// server may have let us in: what comes under it goes to nobody.
func TestAJoinThatCameTooLateBringsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		socket := s.open(s.config())
		p := s.accept()
		joining := asyncJoin(socket, "room:1", nil)
		for range 3 { // the waits between them are random, and the first is none
			late := p.expect("room:1", "phx_join")
			time.Sleep(10 * time.Second)
			synctest.Wait()
			p.send(`[%s,null,"room:1","too late",{}]`, late.Ref)
		}
		join := p.join("room:1")
		got := <-joining
		require.NoError(t, got.err)
		p.send(`[%s,null,"room:1","in time",{}]`, join.Ref)
		require.Equal(t, "in time", (<-got.value.Messages()).Event)
		stats := socket.Stats()
		require.EqualValues(t, 3, stats.Unknown+stats.Stale)
	})
}

// Guards against a join that got hold of a connection in its last moment.
func TestAnEndedConnectionTakesNoJoin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		_, topic, p, _ := joined(t, s, s.config())
		c := topic.current().join.conn
		p.drop()
		<-c.done
		_, err := c.join(t.Context(), topic)
		require.ErrorIs(t, err, ErrNotSent)
	})
}

func TestJoinGivenUpTellsTheLastReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		socket := s.open(s.config())
		p := s.accept()
		ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
		defer cancel()
		joining := async(func() (*Topic, error) { return socket.Join(ctx, "room:1", nil) })
		go p.serve(func(f frame.Frame) string { return errorReply(f, `{"reason":"join crashed"}`) })
		got := <-joining
		var refused *RefusedError
		require.ErrorAs(t, got.err, &refused)
		require.Equal(t, "join crashed", refused.Reason())
		require.ErrorIs(t, got.err, context.DeadlineExceeded)
	})
}

// Guards against a join given up that comes about on the server all the same:
// the server must be told.
func TestJoinGivenUpIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		socket := s.open(s.config())
		p := s.accept()
		why := errors.New("enough")
		ctx, cancel := context.WithCancelCause(t.Context())
		joining := async(func() (*Topic, error) { return socket.Join(ctx, "room:1", nil) })
		f := p.expect("room:1", "phx_join")
		cancel(why)
		require.ErrorIs(t, (<-joining).err, why)
		leave := p.expect("room:1", "phx_leave")
		require.Equal(t, f.Ref, leave.JoinRef)

		// Until the server has answered, the next join of that name waits.
		joining = asyncJoin(socket, "room:1", nil)
		synctest.Wait()
		p.ok(f, `{}`) // the late reply
		p.ok(leave, `{}`)
		p.send(`[%s,%s,"room:1","phx_close",{}]`, f.Ref, f.Ref)
		p.join("room:1")
		require.NoError(t, (<-joining).err)
	})
}

func TestJoinTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		socket, _, _, _ := joined(t, s, s.config())
		_, err := socket.Join(t.Context(), "room:1", nil)
		require.ErrorIs(t, err, ErrTaken)
	})
}

func TestJoinWithAPayloadThatCannotBeSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		cfg := s.config()
		cfg.MaxFrame = 1000
		socket := s.open(cfg)
		s.accept()
		_, err := socket.Join(t.Context(), "room:1", func() {})
		require.ErrorIs(t, err, ErrNotSent)
		_, err = socket.Join(t.Context(), "room:1", strings.Repeat("x", 1000))
		var tooLarge *TooLargeError
		require.ErrorAs(t, err, &tooLarge)
	})
}

func TestJoinPayloadIsMarshalledAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		socket := s.open(s.config())
		p := s.accept()
		joining := asyncJoin(socket, "room:1", &counter{})
		require.Equal(t, "1", string(p.join("room:1").Payload))
		require.NoError(t, (<-joining).err)
		p.drop()
		p = s.accept()
		f := p.join("room:1")
		require.Equal(t, "2", string(f.Payload))
		p.send(`[%s,%s,"room:1","phx_error",{}]`, f.Ref, f.Ref)
		require.Equal(t, "3", string(p.join("room:1").Payload))
	})
}

// All topics come back after a reconnect, each under a join of its own.
func TestAllTopicsJoinAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		socket := s.open(s.config())
		p := s.accept()
		const topics = 99
		var joinings []<-chan outcome[*Topic]
		for n := range topics {
			joinings = append(joinings, asyncJoin(socket, fmt.Sprintf("room:%d", n), nil))
		}
		for range topics {
			p.ok(p.read(), `{}`)
		}
		for _, joining := range joinings {
			require.NoError(t, (<-joining).err)
		}
		p.drop()
		p = s.accept()
		seen := map[string]bool{}
		for range topics {
			f := p.read()
			require.Equal(t, "phx_join", f.Event)
			require.False(t, seen[f.Topic])
			seen[f.Topic] = true
			p.ok(f, `{}`)
		}
	})
}
