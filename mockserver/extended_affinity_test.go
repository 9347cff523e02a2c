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

// keyed queues a run with a key.
func (m *inMemory) keyed(id, key string) {
	m.t.Helper()
	m.enqueue(mockserver.Run{Plan: plan(id), Key: key})
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
		m.enqueue(mockserver.Run{Plan: plan("any")})
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
	_, err := m.Enqueue(mockserver.Run{Plan: plan("r1"), Key: "k"})
	require.EqualError(t, err, "bad plan: key needs the extended mode")
}
