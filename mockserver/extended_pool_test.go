package mockserver_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/channel/frame"
	"github.com/phxworker/phxworker/mockserver"
)

const status = `{"groups":{"manual>*":{"slots":4,"open":2,"claimed":0,"running":2}},"runs":["r1"],"draining":false}`

// A worker that has told of itself and then does not any more loses its runs, whatever
// their leases say, wherever it is.
func TestASilentWorkerLosesItsRuns(t *testing.T) {
	inExtended(t, mockserver.Config{}, []string{"claimed", "started", "done"}, func(t *testing.T, m *inMemory) {
		c, other := m.queued("silent", everyQueueExtension), m.queued("other", `"attempt":1`)
		require.Equal(t, "ok {}", c.answer("worker:queue", "worker:status", status))
		claimed := c.claim()
		require.Contains(t, c.joinRun(claimed, everyRunExtension), "ok")
		c.begin()
		c.begin()
		require.Equal(t, "ok", c.ask("run:done", "run:complete", success).Status)

		pass(30*time.Second - time.Millisecond)
		require.Equal(t, "ok {}", c.answer("worker:queue", "worker:status", status))
		waiting := c.send("worker:queue", "claim", claimAndWait)
		pass(20 * time.Second)
		require.Equal(t, []string{}, c.got(waiting))
		require.Equal(t, mockserver.WorkerRecord{
			ID: "silent", Name: "w", Joins: 1, Runs: []string{"claimed", "started"}, Status: []byte(status),
			StatusAt: time.Now().Add(-20 * time.Second), Extensions: []string{"attempt", "claim_ack", "drain", "lease", "longpoll", "release", "status"},
		}, m.Workers()[1])
		waiting = c.send("worker:queue", "claim", claimAndWait)
		pass(10*time.Second - time.Millisecond)
		other.claimNothing()
		require.Nil(t, c.got(waiting))
		pass(time.Millisecond)
		require.Equal(t, []string{}, c.got(waiting), "it gets nothing meanwhile")
		for _, id := range []string{"claimed", "started"} {
			require.Len(t, c.pushed("run:"+id, frame.Close), 1)
			r := other.claim()
			require.Equal(t, id, r.ID)
			require.Equal(t, 2, *r.Attempt)
			require.Equal(t, []mockserver.End{mockserver.Silent, ""}, ends(m.record(id)))
		}
		require.Equal(t, []mockserver.End{mockserver.Completed}, ends(m.record("done")))
		require.Equal(t, leaseLost, c.joinRun(claimed, everyRunExtension))
		require.True(t, m.Workers()[1].Silent)
		require.EqualValues(t, 1, m.Stats().Extended.SilentWorkers)

		require.Equal(t, "ok {}", c.answer("worker:queue", "worker:status", status))
		require.False(t, m.Workers()[1].Silent)
	})
}

func TestWhoIsNotSilent(t *testing.T) {
	tests := []struct {
		name string
		do   func(m *inMemory, c *peer)
	}{
		{name: "who has never told of itself", do: func(*inMemory, *peer) {}},
		{name: "who does not any more, since it has joined without", do: func(_ *inMemory, c *peer) {
			c.ask("worker:queue", "worker:status", status)
			c.ask("worker:queue", frame.Join, `{}`)
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inExtended(t, mockserver.Config{}, []string{"r1"}, func(t *testing.T, m *inMemory) {
				c := m.queued("w", everyQueueExtension)
				c.begin()
				tt.do(m, c)
				pass(10 * time.Minute)
				require.Equal(t, mockserver.State("started"), m.record("r1").State)
			})
		})
	}
}

// A worker that is killed says nothing any more, and its connection is gone; one that
// is back in time keeps what it has.
func TestAWorkerWhoseConnectionIsLost(t *testing.T) {
	for _, back := range []bool{true, false} {
		t.Run(fmt.Sprint("back ", back), func(t *testing.T) {
			inExtended(t, mockserver.Config{}, []string{"r1"}, func(t *testing.T, m *inMemory) {
				c := m.queued("w", everyQueueExtension)
				c.ask("worker:queue", "worker:status", status)
				r := c.begin()
				_ = c.conn.NetConn().Close()
				pass(29 * time.Second)
				if back {
					c = m.queued("w", everyQueueExtension)
				}
				pass(29 * time.Second)
				if back {
					require.Contains(t, c.joinRun(r, everyRunExtension), "ok ")
					require.Equal(t, "ok", c.ask("run:r1", "run:complete", success).Status)
					return
				}
				require.Equal(t, mockserver.State("available"), m.record("r1").State)
				require.Empty(t, m.Workers(), "forgotten")
			})
		})
	}
}

func TestDrain(t *testing.T) {
	inExtended(t, mockserver.Config{}, []string{"r1"}, func(t *testing.T, m *inMemory) {
		c, also, plain := m.queued("w", everyQueueExtension), m.queued("v", `"drain":1`), m.queued("plain", `"longpoll":1`)
		r := c.begin()
		waiting, other := c.send("worker:queue", "claim", claimAndWait), plain.send("worker:queue", "claim", claimAndWait)
		synctest.Wait()
		require.Equal(t, 2, m.DrainWorkers())
		require.Equal(t, []string{`{}`}, c.pushed("worker:queue", "worker:drain"))
		require.Equal(t, []string{`{}`}, also.pushed("worker:queue", "worker:drain"))
		require.Empty(t, plain.pushed("worker:queue", "worker:drain"))
		require.Equal(t, []string{}, c.got(waiting), "at once")
		require.Nil(t, plain.got(other))

		// Nothing more for who drains; what it has it may end.
		late := c.send("worker:queue", "claim", claimAndWait)
		require.Equal(t, []string{}, c.got(late))
		m.enqueue(mockserver.Run{Plan: plan("r2")})
		require.Equal(t, []string{"r2"}, plain.got(other))
		require.Equal(t, "ok", c.ask(r.topic(), "run:complete", success).Status)

		c.ask("worker:queue", frame.Leave, `{}`)
		require.Equal(t, 1, m.DrainWorkers(), "the one that is still there")
		require.EqualValues(t, 3, m.Stats().Extended.Drains)
	})
	t.Run("in Lightning's own mode", func(t *testing.T) {
		m := newInMemory(t, mockserver.Config{Mode: mockserver.Lightning})
		c := m.worker()
		require.Zero(t, m.DrainWorkers())
		c.exchange("phoenix", "heartbeat", `{}`)
		require.Empty(t, c.pushes)
	})
}
