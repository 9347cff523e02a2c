package phxworker_test

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker"
	"github.com/phxworker/phxworker/internal/mocktest"
	"github.com/phxworker/phxworker/mockserver"
	"github.com/phxworker/phxworker/slots"
)

// A crowd is many workers of one Lightning, each with a connection of its own over
// TCP, as they are in a deployment of many machines.

// crowd starts n workers with this engine and waits until all have joined.
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
