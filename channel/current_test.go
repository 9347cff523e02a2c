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
