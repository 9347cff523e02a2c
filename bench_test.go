package phxworker

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

	"github.com/phxworker/phxworker/mockserver"
	"github.com/phxworker/phxworker/slots"
)

// benchServer is a mock Lightning on loopback TCP that keeps and signs nothing.
func benchServer(b *testing.B) *mockserver.Server {
	b.Helper()
	server, err := mockserver.Start(mockserver.Config{OpaqueTokens: true, WakeDebounce: -1, TranscriptLimit: -1, KeepRuns: 100})
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, server.Close()) })
	return server
}

func benchWorker(b *testing.B, server *mockserver.Server, groups string, engine Engine) {
	b.Helper()
	worker, err := New(Config{URL: server.URL(), Secret: server.Secret(), Groups: slots.MustParse(groups), Engine: engine})
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
	benchWorker(b, server, "manual>*:90", Func(func(context.Context, *Run) (any, error) {
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
	benchWorker(b, server, "manual>*:5", Func(func(context.Context, *Run) (any, error) { return nil, nil })) //nolint:nilnil // as above
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
