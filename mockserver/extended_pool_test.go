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
		require.NoError(t, m.Enqueue(mockserver.Run{Plan: plan("r2")}))
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

// keyed queues a run with a key.
func (m *inMemory) keyed(id, key string) {
	m.t.Helper()
	require.NoError(m.t, m.Enqueue(mockserver.Run{Plan: plan(id), Key: key}))
}

// Runs with one key go to one worker, among several that wait for any.
func TestRunsWithOneKeyGoToOneWorker(t *testing.T) {
	inExtended(t, mockserver.Config{}, nil, func(t *testing.T, m *inMemory) {
		var workers []*peer
		for i := range 5 {
			workers = append(workers, m.queued(fmt.Sprint("w", i), `"longpoll":1`))
		}
		who := make(map[string]int) // by key
		for i := range 60 {
			key, id := fmt.Sprint("customer ", i%12), fmt.Sprint("r", i)
			var waiting []frame.Ref
			for _, c := range workers {
				waiting = append(waiting, c.send("worker:queue", "claim", claimAndWait))
			}
			synctest.Wait()
			m.keyed(id, key)
			taken := 0
			for w, c := range workers {
				if len(c.got(waiting[w])) > 0 {
					if first, known := who[key]; known {
						require.Equal(t, first, w, key)
					}
					who[key] = w
					taken++
				}
			}
			require.Equal(t, 1, taken)
			pass(20 * time.Second) // the other claims end
		}
		shares := make(map[int]int)
		for _, w := range who {
			shares[w]++
		}
		require.Greater(t, len(shares), 2, "the keys are spread: %v", shares)
	})
}

// A run whose worker is busy waits for it, but does not starve; one without a key
// overtakes it.
func TestARunWaitsForItsWorkerForAWhile(t *testing.T) {
	inExtended(t, mockserver.Config{}, nil, func(t *testing.T, m *inMemory) {
		a := m.queued("a", everyQueueExtension)
		m.keyed("first", "k")
		require.Equal(t, "first", a.claim().ID, "there is no other")
		b := m.queued("b", everyQueueExtension)
		var key string // one that is the first worker's, of two
		for i := 0; ; i++ {
			key = fmt.Sprint("k", i)
			m.keyed(key, key)
			if len(runs(t, a.ask("worker:queue", "claim", claimOne))) > 0 {
				break
			}
			require.Equal(t, key, b.claim().ID)
		}
		m.keyed("kept", key)
		require.NoError(t, m.Enqueue(mockserver.Run{Plan: plan("any")}))
		require.Equal(t, "any", b.claim().ID)
		b.claimNothing()
		waiting := b.send("worker:queue", "claim", `{"demand":1,"worker_name":"b","wait_ms":20000}`)
		pass(10*time.Second - time.Millisecond)
		require.Nil(t, b.got(waiting))
		pass(time.Millisecond)
		require.Equal(t, []string{"kept"}, b.got(waiting))
	})
}

// The keys of a worker that takes no more runs are for others at once.
func TestAWorkerThatTakesNoMoreHasNoKeys(t *testing.T) {
	ways := map[string]func(m *inMemory, c *peer){
		"it leaves":        func(_ *inMemory, c *peer) { c.ask("worker:queue", frame.Leave, `{}`) },
		"it is cut off":    func(_ *inMemory, c *peer) { _ = c.conn.NetConn().Close() },
		"it drains":        func(_ *inMemory, c *peer) { c.ask("worker:queue", "worker:status", `{"draining":true}`) },
		"it is told to":    func(m *inMemory, _ *peer) { m.DrainWorkers() },
		"it is not silent": nil,
	}
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			inExtended(t, mockserver.Config{}, nil, func(t *testing.T, m *inMemory) {
				a, b := m.queued("a", everyQueueExtension), m.queued("b", `"longpoll":1`)
				var kept []string // those that wait for a
				for i := range 10 {
					id := fmt.Sprint("r", i)
					m.keyed(id, id)
					if len(runs(t, b.ask("worker:queue", "claim", claimOne))) == 0 {
						kept = append(kept, id)
						break
					}
				}
				require.NotEmpty(t, kept)
				waiting := b.send("worker:queue", "claim", claimAndWait)
				require.Nil(t, b.got(waiting))
				if way == nil {
					require.Equal(t, kept[0], a.claim().ID)
					return
				}
				way(m, a)
				require.Equal(t, kept, b.got(waiting))
				require.Equal(t, kept[0], m.record(kept[0]).Key)
			})
		})
	}
}

func TestKeysNeedTheExtendedMode(t *testing.T) {
	m := newInMemory(t, mockserver.Config{Mode: mockserver.Lightning})
	err := m.Enqueue(mockserver.Run{Plan: plan("r1"), Key: "k"})
	require.EqualError(t, err, "bad plan: key needs the extended mode")
}
