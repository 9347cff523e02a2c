package channel

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A channel that does not answer any more answers no leave either; a second join ends it.
func TestAnAbandonedJoinIsMadeAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		_, topic, p, _ := joined(t, s, s.config())
		first, _ := topic.Current()
		pushing := asyncPush(topic, "say", nil)
		late := p.expect("room:1", "say")
		first.Abandon()
		require.ErrorIs(t, (<-pushing).err, ErrOutcomeUnknown)

		p.join("room:1") // nothing was sent before it
		p.ok(late, `{"too":"late"}`)
		synctest.Wait()
		second, _ := topic.Current()
		require.Equal(t, 2, second.Epoch)
		first.Abandon()
		pushing = asyncPush(topic, "say", nil)
		p.ok(p.expect("room:1", "say"), `{}`)
		require.NoError(t, (<-pushing).err)
		now, _ := topic.Current()
		require.Same(t, second, now, "a join that was lost before has nothing to give up")
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
