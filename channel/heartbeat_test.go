package channel

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestHeartbeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		socket, _, p, _ := joined(t, s, s.config())
		began := time.Now()
		for beat := 1; beat <= 20; beat++ {
			f := p.next()
			require.Equal(t, "phoenix heartbeat", f.Topic+" "+f.Event)
			require.Equal(t, time.Duration(beat)*30*time.Second, time.Since(began))
			require.Empty(t, f.JoinRef)
			require.Equal(t, `{}`, string(f.Payload))
			time.Sleep(time.Duration(beat) * time.Millisecond)
			p.beat(f)
		}
		synctest.Wait()
		require.Equal(t, 20*time.Millisecond, socket.Stats().RoundTrip)
		status, _ := socket.Status()
		require.Equal(t, 1, status.Connections)
	})
}

// A connection that is dead without anyone saying so.
func TestUnansweredHeartbeatEndsTheConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		socket, topic, p, _ := joined(t, s, s.config())
		began := time.Now()
		pushing := asyncPush(topic, "claim", nil)
		p.expect("room:1", "claim")
		require.Equal(t, "heartbeat", p.next().Event)
		got := <-pushing
		require.Equal(t, time.Minute, time.Since(began))
		require.ErrorIs(t, got.err, ErrOutcomeUnknown)
		require.ErrorContains(t, got.err, "heartbeat")
		_ = p.closed()
		s.accept().join("room:1")
		require.Equal(t, time.Minute, time.Since(began))
		require.Equal(t, map[Cause]uint64{CauseHeartbeat: 1}, socket.Stats().Lost)
	})
}

// Guards against taking a connection for dead that is busy: many runs report at
// once, each with megabytes, and the heartbeat has to wait for its turn.
func TestAHeartbeatThatWaitsForItsTurnIsNotUnanswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		cfg := s.config()
		cfg.WriteTimeout = 20 * time.Second
		socket, topic, p, _ := joined(t, s, cfg)
		var pushings []<-chan outcome[Reply]
		for range 6 {
			pushings = append(pushings, asyncPush(topic, "large", nil))
			synctest.Wait()
		}
		for range pushings {
			time.Sleep(15 * time.Second) // what each takes to be written
			p.ok(p.expect("room:1", "large"), `{}`)
		}
		require.Equal(t, "heartbeat", p.next().Event)
		for _, pushing := range pushings {
			require.NoError(t, (<-pushing).err)
		}
		status, _ := socket.Status()
		require.Equal(t, 1, status.Connections)
	})
}
