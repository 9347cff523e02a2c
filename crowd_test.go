package phxworker_test

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker"
	"github.com/phxworker/phxworker/channel"
	"github.com/phxworker/phxworker/internal/mocktest"
	"github.com/phxworker/phxworker/mockserver"
	"github.com/phxworker/phxworker/mockserver/fault"
	"github.com/phxworker/phxworker/slots"
)

// Two hundred runs are in flight, on more than one socket, when something happens
// to all of them: each comes to its end at the server, once.
func TestTwoHundredRunsSurvive(t *testing.T) {
	runs := 200
	if testing.Short() {
		runs = 110 // more than a socket has topics
	}
	now := func(h *house, r fault.Rule) {
		r.Event = fault.Now
		h.fail(r)
	}
	tests := []struct {
		name   string
		happen func(h *house, worker *phxworker.Worker, stop context.CancelFunc)
		state  string // of every run afterwards; defaults to success
		err    error
	}{
		{name: "a restart", happen: func(h *house, _ *phxworker.Worker, _ context.CancelFunc) {
			now(h, fault.Rule{Action: fault.Restart, Delay: 30 * time.Second})
		}},
		{name: "a crash of the server", happen: func(h *house, _ *phxworker.Worker, _ context.CancelFunc) {
			now(h, fault.Rule{Action: fault.Restart, Code: fault.Abnormal, Delay: 30 * time.Second})
		}},
		{name: "a kick", happen: func(h *house, _ *phxworker.Worker, _ context.CancelFunc) {
			now(h, fault.Rule{Action: fault.Close, Code: 1000})
		}},
		{name: "a dead network", happen: func(h *house, _ *phxworker.Worker, _ context.CancelFunc) { h.cut() }},
		{name: "a server that freezes", happen: func(h *house, _ *phxworker.Worker, _ context.CancelFunc) {
			now(h, fault.Rule{Action: fault.Stall, Delay: 50 * time.Second})
		}},
		{name: "a drain", happen: func(_ *house, _ *phxworker.Worker, stop context.CancelFunc) { stop() }},
		{name: "a drain and a restart", happen: func(h *house, _ *phxworker.Worker, stop context.CancelFunc) {
			stop()
			now(h, fault.Rule{Action: fault.Restart, Delay: 5 * time.Second})
		}},
		{name: "an abort", state: "cancelled", err: phxworker.ErrAborted, happen: func(_ *house, worker *phxworker.Worker, stop context.CancelFunc) {
			stop()
			worker.Abort()
		}},
		{name: "an abort and a kick", state: "cancelled", err: phxworker.ErrAborted, happen: func(h *house, worker *phxworker.Worker, stop context.CancelFunc) {
			stop()
			worker.Abort()
			now(h, fault.Rule{Action: fault.Close, Code: 1000})
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.state == "" {
				tt.state = "success"
			}
			synctest.Test(t, func(t *testing.T) {
				h := openHouse(t, mockserver.Config{WakeDebounce: 24 * time.Hour, OpaqueTokens: true})
				var ids []string
				for i := range runs {
					ids = append(ids, fmt.Sprint("m", i))
				}
				h.enqueue("manual", ids...)
				worker, stop := h.hire(phxworker.Config{Groups: slots.MustParse(fmt.Sprintf("manual>*:%d", runs)), Engine: phxworker.Func(h.gate.inSteps)})
				settle(time.Minute)
				require.Equal(t, runs, h.server.Stats().Started)
				tt.happen(h, worker, func() { go func() { _ = stop() }() })
				if tt.state == "success" {
					for _, id := range ids {
						h.gate.release(id)
					}
				}
				settle(3 * time.Minute)
				for _, id := range ids {
					require.Equal(t, tt.state, h.state(id))
					require.Equal(t, 1, h.taken(id, "step:start"))
					require.Equal(t, 1, h.taken(id, "step:complete"))
					require.Equal(t, 1, h.taken(id, "run:complete"))
				}
				require.Zero(t, worker.Stats().Undelivered)
				require.ErrorIs(t, stop(), tt.err)
			})
		})
	}
}

// Guards against sockets beyond the first whose connections nobody counts.
func TestTheConnectionsOfAllSocketsCount(t *testing.T) {
	const runs = 110
	synctest.Test(t, func(t *testing.T) {
		h := openHouse(t, mockserver.Config{WakeDebounce: 24 * time.Hour, OpaqueTokens: true})
		ids := manyRuns(runs)
		h.enqueue("manual", ids...)
		worker, _ := h.hire(phxworker.Config{Groups: slots.MustParse(fmt.Sprintf("manual>*:%d", runs))})
		settle(time.Minute)
		require.Equal(t, 2, worker.Stats().Connection.Connections)
		h.cut()
		settle(time.Minute)
		for _, id := range ids {
			h.gate.release(id)
		}
		settle(5 * time.Minute)
		stats := worker.Stats().Connection
		require.Equal(t, 1, stats.Sockets, "the further one has closed")
		require.Equal(t, 4, stats.Connections)
		require.Equal(t, map[channel.Cause]uint64{channel.CauseNetwork: 2}, stats.Lost)
	})
}

// crowd starts n workers with this engine, each with a connection of its own over TCP as in a
// deployment of many machines, and waits until all have joined.
func crowd(tb testing.TB, server *mockserver.Server, n int, engine func(worker int) phxworker.Engine) {
	tb.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var over sync.WaitGroup
	tb.Cleanup(func() {
		cancel()
		over.Wait()
	})
	for i := range n {
		worker, err := phxworker.New(phxworker.Config{
			URL: server.URL(), Secret: server.Secret(), Groups: slots.MustParse("manual>*:5"),
			Name: fmt.Sprintf("worker-%d", i), Engine: engine(i),
		})
		require.NoError(tb, err)
		over.Go(func() {
			if err := worker.Run(ctx); err != nil {
				tb.Errorf("worker %d: %v", i, err)
			}
		})
	}
	for server.Stats().Workers < n {
		runtime.Gosched()
	}
}

// enqueueMany puts runs into the queue, named run-<from> and so on.
func enqueueMany(tb testing.TB, server *mockserver.Server, from, n int) {
	tb.Helper()
	for i := from; i < from+n; i++ {
		plan := fmt.Appendf(nil, `{"id":"run-%d","jobs":[{"id":"j","body":"fn(s => s)"}],"triggers":[],"edges":[]}`, i)
		_, err := server.Enqueue(mockserver.Run{Plan: json.RawMessage(plan), Queue: "manual"})
		require.NoError(tb, err)
	}
}

// Every run goes to exactly one of 200 workers.
func TestTwoHundredWorkersShareOneQueue(t *testing.T) {
	workers, runs := 200, 1000
	if testing.Short() {
		workers, runs = 50, 250
	}
	server, err := mockserver.Start(mocktest.Config(mockserver.Config{OpaqueTokens: true, TranscriptLimit: -1}))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Close()) })

	var mu sync.Mutex
	executed := make(map[string]int)
	busy := make(map[int]bool)
	gate, shared := make(chan struct{}), false
	crowd(t, server, workers, func(worker int) phxworker.Engine {
		return phxworker.Func(func(_ context.Context, run *phxworker.Run) (any, error) {
			mu.Lock()
			executed[run.ID]++
			busy[worker] = true
			if len(busy) == workers/2 && !shared {
				shared = true
				close(gate)
			}
			mu.Unlock()
			<-gate // until half of them have runs: the others' slots are full by then
			return map[string]int{"worker": worker}, nil
		})
	})
	enqueueMany(t, server, 0, runs)
	names := make(map[string]bool)
	for i := range runs {
		id := fmt.Sprintf("run-%d", i)
		result, err := server.Wait(t.Context(), id)
		require.NoError(t, err)
		require.Equal(t, "success", string(result.State), id)
		record, _ := server.Inspect(id)
		names[record.WorkerName] = true
	}
	mu.Lock()
	defer mu.Unlock()
	require.Len(t, executed, runs)
	for id, times := range executed {
		require.Equal(t, 1, times, id)
	}
	require.Len(t, names, len(busy), "the server knows who took what")
	require.GreaterOrEqual(t, len(busy), workers/2)
}

// sizes are the crowds that are measured.
var sizes = []int{1, 20, 200}

func benchCrowd(b *testing.B, workers int) *mockserver.Server {
	b.Helper()
	server, err := mockserver.Start(mocktest.Config(mockserver.Config{OpaqueTokens: true, WakeDebounce: -1, TranscriptLimit: -1, KeepRuns: 1_000_000}))
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, server.Close()) })
	crowd(b, server, workers, func(int) phxworker.Engine {
		return phxworker.Func(func(context.Context, *phxworker.Run) (any, error) { return map[string]int{}, nil })
	})
	return server
}

// BenchmarkCrowdBacklog takes a queue of b.N runs through workers of 5 slots, with
// an engine that does nothing: what limits is the server and this machine, which
// they share.
func BenchmarkCrowdBacklog(b *testing.B) {
	for _, workers := range sizes {
		b.Run(fmt.Sprintf("workers=%d", workers), func(b *testing.B) {
			server := benchCrowd(b, workers)
			before := server.Stats()
			b.ReportAllocs()
			b.ResetTimer()
			enqueueMany(b, server, 0, b.N)
			for i := range b.N {
				_, err := server.Wait(b.Context(), fmt.Sprintf("run-%d", i))
				require.NoError(b, err)
			}
			b.StopTimer()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "runs/s")
			b.ReportMetric(float64(server.Stats().Claims-before.Claims)/float64(b.N), "claims/run")
		})
	}
}

// BenchmarkCrowdWake puts one run after the other into an empty queue. All workers
// are told of each, and all claim; one gets it. The time is from the run's creation
// to its run:start.
func BenchmarkCrowdWake(b *testing.B) {
	for _, workers := range sizes {
		b.Run(fmt.Sprintf("workers=%d", workers), func(b *testing.B) {
			server := benchCrowd(b, workers)
			before := server.Stats()
			var took []time.Duration
			n := 0
			b.ResetTimer()
			for b.Loop() {
				enqueueMany(b, server, n, 1)
				id := fmt.Sprintf("run-%d", n)
				_, err := server.Wait(b.Context(), id)
				require.NoError(b, err)
				record, _ := server.Inspect(id)
				took = append(took, record.StartedAt.Sub(record.EnqueuedAt))
				n++
			}
			b.StopTimer()
			slices.Sort(took)
			at := func(part float64) float64 { return float64(took[int(part*float64(len(took)-1))].Microseconds()) }
			b.ReportMetric(at(0.5), "p50-µs")
			b.ReportMetric(at(0.99), "p99-µs")
			b.ReportMetric(float64(server.Stats().Claims-before.Claims)/float64(n), "claims/run")
		})
	}
}

// Guards against the join of a 101st topic, which Phoenix refuses: the run would
// be lost.
func TestMoreRunsThanASocketCarries(t *testing.T) {
	tests := []struct {
		name         string
		most         int // topics a socket
		runs         int
		wantedSocket int
	}{
		{name: "Phoenix's own limit", most: 100, runs: 150, wantedSocket: 2},
		{name: "a limit that is learned", most: 5, runs: 12, wantedSocket: 3},
		{name: "just one socket's worth", most: 100, runs: 99, wantedSocket: 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg := quiet
				cfg.MaxTopics = tt.most
				h := openHouse(t, cfg)
				var ids []string
				for i := range tt.runs {
					ids = append(ids, fmt.Sprint("m", i))
				}
				h.enqueue("manual", ids...)
				_, stop := h.hire(phxworker.Config{Groups: slots.MustParse(fmt.Sprintf("manual>*:%d", tt.runs))})
				settle(10 * time.Second)
				require.Equal(t, tt.runs, h.server.Stats().Started)
				require.Equal(t, tt.wantedSocket, h.server.Stats().Sockets)
				joins := h.sent("phx_join")
				require.JSONEq(t, fmt.Sprintf(`{"capacity":%d,"queues":{"manual>*":%d}`, tt.runs, tt.runs)+offered(), joins[0].payload)

				h.cut() // they all come back where they were
				settle(time.Minute)
				for _, id := range ids {
					h.gate.release(id)
				}
				settle(10 * time.Second)
				require.Equal(t, int64(tt.runs), h.server.Stats().Ended["success"])
				settle(2 * time.Minute)
				require.Equal(t, 1, h.server.Stats().Sockets, "idle sockets are closed")
				require.NoError(t, stop())
			})
		})
	}
}

// Guards against a limit that is learned from a refusal while others leave: it
// came out as none at all, and claimed runs were given up.
func TestALimitIsLearnedWhileRunsComeAndGo(t *testing.T) {
	for _, most := range []int{1, 2, 3, 5} {
		t.Run(fmt.Sprint(most, " topics"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg := quiet
				cfg.MaxTopics = most
				h := openHouse(t, cfg)
				runs := 400
				if testing.Short() {
					runs = 100
				}
				var ids []string
				for i := range runs {
					ids = append(ids, fmt.Sprint("m", i))
				}
				h.enqueue("manual", ids...)
				h.hire(phxworker.Config{Groups: slots.MustParse("manual>*:40"), Engine: phxworker.Func(func(context.Context, *phxworker.Run) (any, error) { return nil, nil })}) //nolint:nilnil // a run without a final state
				settle(10 * time.Minute)
				require.EqualValues(t, runs, h.server.Stats().Ended["success"])
			})
		})
	}
}

// Guards against a place that is given back twice: the socket would be taken for
// one with room.
func TestAPlaceIsGivenBackOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := openHouse(t, quiet)
		h.enqueue("manual", "a", "b")
		worker, stop := h.hire(phxworker.Config{Groups: slots.MustParse("manual:2")})
		settle(time.Second)
		for _, id := range []string{"a", "b"} {
			topics, joined := worker.Seats()
			require.Equal(t, topics, joined)
			h.gate.release(id)
			settle(time.Second)
		}
		topics, joined := worker.Seats()
		require.Equal(t, []int{1, 1}, []int{topics, joined}, "the queue's")
		require.NoError(t, stop())
	})
}

func TestAStopClosesEverySocket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := quiet
		cfg.MaxTopics = 2
		h := openHouse(t, cfg)
		h.enqueue("manual", "a", "b", "c")
		_, stop := h.hire(phxworker.Config{Groups: slots.MustParse("manual:3")})
		settle(10 * time.Second)
		require.Equal(t, 2, h.server.Stats().Sockets)
		for _, id := range []string{"a", "b", "c"} {
			h.gate.release(id)
		}
		require.NoError(t, stop())
		settle(0)
		require.Zero(t, h.server.Stats().Sockets)
	})
}

// benchServer is a mock Lightning on loopback TCP that keeps and signs nothing.
func benchServer(b *testing.B) *mockserver.Server {
	b.Helper()
	server, err := mockserver.Start(mocktest.Config(mockserver.Config{OpaqueTokens: true, WakeDebounce: -1, TranscriptLimit: -1, KeepRuns: 100}))
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, server.Close()) })
	return server
}

func benchWorker(b *testing.B, server *mockserver.Server, groups string, engine phxworker.Engine) {
	b.Helper()
	worker, err := phxworker.New(phxworker.Config{URL: server.URL(), Secret: server.Secret(), Groups: slots.MustParse(groups), Engine: engine})
	require.NoError(b, err)
	ctx, cancel := context.WithCancel(b.Context())
	ended := make(chan error, 1)
	go func() { ended <- worker.Run(ctx) }()
	b.Cleanup(func() {
		cancel()
		require.NoError(b, <-ended)
	})
	for server.Stats().Workers == 0 {
		runtime.Gosched()
	}
}

func benchPlan(id int) json.RawMessage {
	return fmt.Appendf(nil, `{"id":"run-%d","jobs":[{"id":"j","body":"fn(s => s)"}],"triggers":[],"edges":[]}`, id)
}

// BenchmarkRuns takes whole runs through a worker of 90 slots, over TCP, with an
// engine that does nothing: claim, join, plan, run:start, one line of log,
// run:complete, leave. Server and worker share the machine.
func BenchmarkRuns(b *testing.B) {
	server := benchServer(b)
	var left sync.WaitGroup
	benchWorker(b, server, "manual>*:90", phxworker.Func(func(context.Context, *phxworker.Run) (any, error) {
		left.Done()
		return nil, nil //nolint:nilnil // a run without a final state
	}))
	b.ReportAllocs()
	b.ResetTimer()
	left.Add(b.N)
	for i := range b.N {
		_, err := server.Enqueue(mockserver.Run{Plan: benchPlan(i), Queue: "manual"})
		require.NoError(b, err)
	}
	left.Wait()
	for server.Stats().Ended["success"] < int64(b.N) {
		runtime.Gosched()
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "runs/s")
}

// BenchmarkWake measures from the creation of a run, with a wake-up, to its
// run:start at the server, for a worker that is idle otherwise.
func BenchmarkWake(b *testing.B) {
	server := benchServer(b)
	benchWorker(b, server, "manual>*:5", phxworker.Func(func(context.Context, *phxworker.Run) (any, error) { return nil, nil })) //nolint:nilnil // as above
	var took []time.Duration
	for i := 0; b.Loop(); i++ {
		id := fmt.Sprintf("run-%d", i)
		_, err := server.Enqueue(mockserver.Run{Plan: benchPlan(i), Queue: "manual"})
		require.NoError(b, err)
		_, err = server.Wait(b.Context(), id)
		require.NoError(b, err)
		record, _ := server.Inspect(id)
		took = append(took, record.StartedAt.Sub(record.EnqueuedAt))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(took[len(took)*9/10].Microseconds()), "p90-µs")
}
