package channel

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

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
