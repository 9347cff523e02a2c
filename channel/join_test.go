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

// What was agreed on with one join must not be used under the next: another
// server may have answered that.
func TestAPushUnderAJoinIsNotSentUnderTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		socket := s.open(s.config())
		p := s.accept()
		joining := asyncJoin(socket, "room:1", nil)
		p.ok(p.expect("room:1", "phx_join"), `{"knows":"much"}`)
		topic := (<-joining).value

		first, changed := topic.Current()
		require.Equal(t, 1, first.Epoch)
		require.JSONEq(t, `{"knows":"much"}`, string(first.Response))
		done := make(chan error)
		go func() {
			_, err := first.Push(t.Context(), "more", nil)
			done <- err
		}()
		p.ok(p.expect("room:1", "more"), `{}`)
		require.NoError(t, <-done)

		p.drop()
		<-first.Lost()
		<-changed
		none, changed := topic.Current()
		require.Nil(t, none)
		p = s.accept()
		p.join("room:1")
		<-changed
		synctest.Wait()
		second, _ := topic.Current()
		require.Equal(t, 2, second.Epoch)
		require.JSONEq(t, `{}`, string(second.Response))
		_, err := first.Push(t.Context(), "more", nil)
		require.ErrorIs(t, err, ErrNotSent)
		go func() {
			_, err := second.Push(t.Context(), "less", nil)
			done <- err
		}()
		p.ok(p.expect("room:1", "less"), `{}`) // the first thing that came
		require.NoError(t, <-done)
	})
}

// A server may push as soon as it has answered, before the client has taken notice:
// what comes then belongs to the new join.
func TestAMessageTellsItsJoin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		_, topic, p, _ := joined(t, s, s.config())
		first, _ := topic.Current()
		p.drop()
		p = s.accept()
		join := p.expect("room:1", "phx_join")
		p.ok(join, `{"knows":"more"}`)
		p.send(`[%s,null,"room:1","behind it",{}]`, join.Ref)
		message := <-topic.Messages()
		require.Equal(t, 2, message.Join.Epoch)
		require.JSONEq(t, `{"knows":"more"}`, string(message.Join.Response))
		_, err := message.Join.End()
		require.NoError(t, err)
		_, err = first.End()
		require.Error(t, err)
		second, err := topic.Ready(t.Context())
		require.NoError(t, err)
		require.Same(t, second, message.Join)
	})
}

// While a connection is being closed nothing can be written to it, though its joins are
// not lost yet: whoever waits for a join must not be told of such a one.
func TestAConnectionThatEndsHasNoJoinToOffer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		_, topic, _, _ := joined(t, s, s.config())
		join, _ := topic.Current()
		join.conn.cancel(errHeartbeat)
		none, _ := topic.Current()
		require.Nil(t, none)
	})
}

// A broadcast can come after a join was asked for and before it was answered: nothing is
// agreed on by then.
func TestABroadcastBeforeTheOkHasNoJoin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		_, topic, p, first := joined(t, s, s.config())
		p.send(`[%s,%s,"room:1","phx_error",{}]`, first.Ref, first.Ref)
		again := p.expect("room:1", "phx_join")
		p.send(`[null,null,"room:1","broadcast",{}]`)
		require.Nil(t, (<-topic.Messages()).Join)
		p.ok(again, `{}`)
		p.send(`[null,null,"room:1","broadcast",{}]`)
		require.Equal(t, 2, (<-topic.Messages()).Join.Epoch)
	})
}

// A topic that is being left sends nothing any more, under whatever join.
func TestNothingIsPushedUnderTheJoinOfATopicThatIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		_, topic, p, _ := joined(t, s, s.config())
		join, _ := topic.Current()
		go func() { _ = topic.Leave(t.Context()) }()
		leave := p.expect("room:1", "phx_leave")
		_, err := join.Push(t.Context(), "late", nil)
		require.ErrorIs(t, err, ErrNotSent)
		p.ok(leave, `{}`)
	})
}

// A channel that does not answer any more answers no leave either; a second join ends it.
func TestAJoinThatDoesNotAnswerIsMadeAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		_, topic, p, _ := joined(t, s, s.config())
		first, _ := topic.Current()
		began := time.Now()
		pushing := async(func() (Reply, error) { return first.PushWithin(t.Context(), 20*time.Second, "say", nil) })
		p.expect("room:1", "say")
		other := asyncPush(topic, "more", nil)
		late := p.expect("room:1", "more")
		for _, outcome := range []error{(<-pushing).err, (<-other).err} {
			require.ErrorIs(t, outcome, ErrOutcomeUnknown)
			require.ErrorIs(t, outcome, ErrUnanswered)
		}
		require.Equal(t, 20*time.Second, time.Since(began))

		p.join("room:1") // nothing was sent before it
		p.ok(late, `{"too":"late"}`)
		synctest.Wait()
		second, _ := topic.Current()
		require.Equal(t, 2, second.Epoch)
		again := async(func() (Reply, error) { return second.PushWithin(t.Context(), time.Second, "say", nil) })
		p.ok(p.expect("room:1", "say"), `{}`)
		require.NoError(t, (<-again).err)
	})
}

func TestATopicThatBacksOffIsJoinedNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		cfg := s.config()
		cfg.MinBackoff, cfg.MaxBackoff = time.Hour, 24*time.Hour
		socket := s.open(cfg)
		p := s.accept()
		joining := asyncJoin(socket, "room:1", nil)
		for range 2 { // the first attempt after a failure comes at once
			p.refuse(p.expect("room:1", "phx_join"), `{"reason":"join crashed"}`)
		}
		synctest.Wait()
		began := time.Now()
		socket.mu.Lock()
		topic := socket.topics["room:1"]
		socket.mu.Unlock()
		topic.JoinNow()
		p.join("room:1")
		require.NoError(t, (<-joining).err)
		require.Zero(t, time.Since(began))
		topic.JoinNow() // of no effect
	})
}
