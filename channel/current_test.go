package channel

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

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
