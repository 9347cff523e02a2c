package extended_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/channel/frame"
	"github.com/phxworker/phxworker/internal/mocktest"
	"github.com/phxworker/phxworker/mockserver"
)

func claimFor(queues string, wait int) string {
	return fmt.Sprintf(`{"demand":1,"worker_name":"w","queues":%s,"wait_ms":%d}`, queues, wait)
}

// got returns the ids of the runs that a claim was answered with, nil if it waits.
func (c *peer) got(ref frame.Ref) []string {
	c.T.Helper()
	f, ok := c.replied(ref)
	if !ok {
		return nil
	}
	ids := []string{}
	for _, r := range runs(c.T, f) {
		ids = append(ids, r.ID)
	}
	return ids
}

// A run goes to the claim that has waited longest of those that it fits.
func TestClaimsThatWaitAreAnsweredInTheirOrder(t *testing.T) {
	inExtended(t, mockserver.Config{}, nil, func(t *testing.T, m *server) {
		a, b := m.queued("a", everyQueueExtension), m.queued("b", everyQueueExtension)
		fast := a.Send("worker:queue", "claim", claimFor(`["fast_lane"]`, 20000))
		first := a.Send("worker:queue", "claim", claimFor(`["*"]`, 20000))
		synctest.Wait()
		second := b.Send("worker:queue", "claim", claimFor(`["manual","*"]`, 20000))
		synctest.Wait()
		third := a.Send("worker:queue", "claim", claimFor(`["*"]`, 20000))
		synctest.Wait()
		require.Equal(t, 4, m.Stats().Extended.Waiting)
		require.EqualValues(t, 0, m.Stats().Claims)

		m.Queue(mockserver.Run{Plan: mocktest.Plan("r1"), Queue: "manual"})
		require.Equal(t, []string{"r1"}, a.got(first))
		m.Queue(mockserver.Run{Plan: mocktest.Plan("r2"), Queue: "manual"})
		require.Equal(t, []string{"r2"}, b.got(second))
		m.Queue(mockserver.Run{Plan: mocktest.Plan("r3"), Queue: "fast_lane"})
		require.Equal(t, []string{"r3"}, a.got(fast))
		require.Nil(t, a.got(third))

		// A claim that does not wait comes behind those that do.
		m.Queue(mockserver.Run{Plan: mocktest.Plan("r4"), Queue: "manual"})
		b.claimNothing()
		require.Equal(t, []string{"r4"}, a.got(third))
	})
}

func TestAClaimWaitsAsLongAsItSays(t *testing.T) {
	tests := []struct {
		name   string
		wait   int
		demand int
		want   time.Duration
	}{
		{name: "as it says", wait: 5000, demand: 1, want: 5 * time.Second},
		{name: "at most as long as the server says", wait: 3_600_000, demand: 1, want: 20 * time.Second},
		{name: "not at all", wait: 0, demand: 1, want: 0},
		{name: "for nothing", wait: 5000, demand: 0, want: 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inExtended(t, mockserver.Config{}, nil, func(t *testing.T, m *server) {
				c := m.queued("w", everyQueueExtension)
				ref := c.Send("worker:queue", "claim", fmt.Sprintf(`{"demand":%d,"worker_name":"w","wait_ms":%d}`, tt.demand, tt.wait))
				if tt.want > 0 {
					pass(tt.want - time.Millisecond)
					require.Nil(t, c.got(ref))
					pass(time.Millisecond)
				}
				require.Equal(t, []string{}, c.got(ref))
				require.EqualValues(t, 1, m.Stats().Empty)
				require.Zero(t, m.Stats().Extended.Waiting)
			})
		})
	}
	t.Run("not at all, if that was not agreed on", func(t *testing.T) {
		inExtended(t, mockserver.Config{}, nil, func(t *testing.T, m *server) {
			c := m.queued("w", `"lease":1`)
			require.Equal(t, []string{}, c.got(c.Send("worker:queue", "claim", claimAndWait)))
		})
	})
	t.Run("nonsense", func(t *testing.T) {
		inExtended(t, mockserver.Config{}, nil, func(t *testing.T, m *server) {
			c := m.queued("w", everyQueueExtension)
			c.Send("worker:queue", "claim", `{"demand":1,"worker_name":"w","wait_ms":-5}`)
			require.Len(t, c.pushed("worker:queue", frame.Error), 1)
		})
	})
}

// The wait of a worker that is not there any more gets no run.
func TestAWaitEndsWithItsTopic(t *testing.T) {
	ends := map[string]func(c *peer){
		"left":        func(c *peer) { c.ask("worker:queue", frame.Leave, `{}`) },
		"crashed":     func(c *peer) { c.Send("worker:queue", "nonsense", `{}`) },
		"rejoined":    func(c *peer) { c.ask("worker:queue", frame.Join, `{}`) },
		"connection":  func(c *peer) { _ = c.Conn.Close() },
		"half closed": func(c *peer) { _ = c.Conn.NetConn().Close() },
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			inExtended(t, mockserver.Config{}, nil, func(t *testing.T, m *server) {
				c := m.queued("w", everyQueueExtension)
				ref := c.Send("worker:queue", "claim", claimAndWait)
				synctest.Wait()
				require.Equal(t, 1, m.Stats().Extended.Waiting)
				end(c)
				synctest.Wait()
				require.Zero(t, m.Stats().Extended.Waiting)
				m.Queue(mockserver.Run{Plan: mocktest.Plan("r1")})
				require.Nil(t, c.got(ref))
				require.Equal(t, "r1", m.queued("other", "").claim().ID)
			})
		})
	}
}

// No wake-up is lost, whoever makes runs available and however many claim: each of a thousand
// runs, a part of them released again, is owned by one worker at a time, and all waits end.
func TestManyWorkersThatWait(t *testing.T) {
	const workers, count = 20, 1000
	inExtended(t, mockserver.Config{WakeDebounce: time.Hour, MaxQueued: -1}, nil, func(t *testing.T, m *server) {
		stop := make(chan struct{})
		done := make(chan int, workers)
		for i := range workers {
			c := m.queued(fmt.Sprint("w", i), everyQueueExtension)
			go func() {
				completed := 0
				for {
					ref := c.Send("worker:queue", "claim", claimAndWait)
					f := c.await(ref, stop)
					if f == nil {
						done <- completed
						return
					}
					var claimed struct{ Runs []extendedRun }
					_ = json.Unmarshal(f.Payload, &claimed) // what is lost by it is missed below
					for _, r := range claimed.Runs {
						if completed%5 == 4 && *r.Attempt == 1 {
							c.await(c.Send("worker:queue", "run:release", `{"id":"`+r.ID+`","token":"`+r.Token+`","reason":"requeue","delay_ms":10}`), stop)
							completed++ // of its own count, so that not all are released
							continue
						}
						c.await(c.Send(r.topic(), frame.Join, `{"token":"`+r.Token+`"}`), stop)
						c.await(c.Send(r.topic(), "run:complete", success), stop)
						c.await(c.Send(r.topic(), frame.Leave, `{}`), stop)
						completed++
					}
				}
			}()
		}
		for i := range count {
			m.Queue(mockserver.Run{Plan: mocktest.Plan(fmt.Sprint("r", i))})
		}
		for i := range count {
			_, err := m.Wait(t.Context(), fmt.Sprint("r", i))
			require.NoError(t, err)
		}
		close(stop)
		sum := 0
		for range workers {
			sum += <-done
		}
		stats := m.Stats()
		require.EqualValues(t, count, stats.Ended["success"])
		require.EqualValues(t, count+stats.Extended.Released, sum)
		require.Positive(t, stats.Extended.Released)
		require.Zero(t, stats.Available+stats.Claimed+stats.Started+stats.Extended.Delayed)
	})
}

// await waits for a reply, or for stop: then it returns nil.
func (c *peer) await(ref frame.Ref, stop <-chan struct{}) *frame.Frame {
	for {
		c.mu.Lock()
		f, ok := c.replies[ref]
		came := c.came
		c.mu.Unlock()
		if ok {
			return &f
		}
		select {
		case <-came:
		case <-stop:
			return nil
		}
	}
}

// keyed queues a run with a key.
func (m *server) keyed(id, key string) {
	m.T.Helper()
	m.Queue(mockserver.Run{Plan: mocktest.Plan(id), Key: key})
}

// Runs with one key go to one worker, among several that wait for any.
func TestRunsWithOneKeyGoToOneWorker(t *testing.T) {
	inExtended(t, mockserver.Config{}, nil, func(t *testing.T, m *server) {
		var workers []*peer
		for i := range 5 {
			workers = append(workers, m.queued(fmt.Sprint("w", i), `"longpoll":1`))
		}
		who := make(map[string]int) // by key
		for i := range 60 {
			key, id := fmt.Sprint("customer ", i%12), fmt.Sprint("r", i)
			var waiting []frame.Ref
			for _, c := range workers {
				waiting = append(waiting, c.Send("worker:queue", "claim", claimAndWait))
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
	inExtended(t, mockserver.Config{}, nil, func(t *testing.T, m *server) {
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
		m.Queue(mockserver.Run{Plan: mocktest.Plan("any")})
		require.Equal(t, "any", b.claim().ID)
		b.claimNothing()
		waiting := b.Send("worker:queue", "claim", `{"demand":1,"worker_name":"b","wait_ms":20000}`)
		pass(10*time.Second - time.Millisecond)
		require.Nil(t, b.got(waiting))
		pass(time.Millisecond)
		require.Equal(t, []string{"kept"}, b.got(waiting))
	})
}

// The keys of a worker that takes no more runs are for others at once.
func TestAWorkerThatTakesNoMoreHasNoKeys(t *testing.T) {
	ways := map[string]func(m *server, c *peer){
		"it leaves":        func(_ *server, c *peer) { c.ask("worker:queue", frame.Leave, `{}`) },
		"it is cut off":    func(_ *server, c *peer) { _ = c.Conn.NetConn().Close() },
		"it drains":        func(_ *server, c *peer) { c.ask("worker:queue", "worker:status", `{"draining":true}`) },
		"it is told to":    func(m *server, _ *peer) { m.DrainWorkers() },
		"it is not silent": nil,
	}
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			inExtended(t, mockserver.Config{}, nil, func(t *testing.T, m *server) {
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
				waiting := b.Send("worker:queue", "claim", claimAndWait)
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
	m := newServer(t, mockserver.Config{Mode: mockserver.Lightning})
	_, err := m.Enqueue(mockserver.Run{Plan: mocktest.Plan("r1"), Key: "k"})
	require.EqualError(t, err, "bad plan: key needs the extended mode")
}
