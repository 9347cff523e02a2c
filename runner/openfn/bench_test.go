package openfn

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/phxworker/phxworker"
	"github.com/phxworker/phxworker/internal/runtest"
	"github.com/phxworker/phxworker/mockserver"
	"github.com/phxworker/phxworker/slots"
)

// BenchmarkWake measures an idle worker, over TCP: from the enqueueing of a run
// until the server has its run:start and its run:complete, at the median.
func BenchmarkWake(b *testing.B) {
	h := openHouse(b, Config{Spares: 1}, 5)
	h.wait(h.enqueue()) // installs, and starts the first spare
	var start, complete []time.Duration
	for b.Loop() {
		time.Sleep(400 * time.Millisecond) // an idle worker has its spare
		begin := time.Now()
		record := h.wait(h.enqueue())
		complete = append(complete, time.Since(begin))
		start = append(start, record.StartedAt.Sub(begin))
	}
	for name, all := range map[string][]time.Duration{"ms-to-start": start, "ms-to-complete": complete} {
		slices.Sort(all)
		b.ReportMetric(float64(all[len(all)/2].Microseconds())/1000, name)
	}
}

// BenchmarkRuns measures a busy worker with five slots: besides the runs a second, which depend on who
// else is at work, the processor time of a run, and that part of it which is its process's.
func BenchmarkRuns(b *testing.B) {
	for name, cfg := range map[string]Config{"a process each": {Spares: 2}, "reused": {Spares: 2, Reuse: 1000}} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			h := openHouse(b, cfg, 5)
			h.wait(h.enqueue())
			begin, own, children := time.Now(), cpuTime(b, unix.RUSAGE_SELF), cpuTime(b, unix.RUSAGE_CHILDREN)
			var ids []string
			for b.Loop() {
				ids = append(ids, h.enqueue())
			}
			for _, id := range ids {
				h.wait(id)
			}
			b.ReportMetric(float64(len(ids))/time.Since(begin).Seconds(), "runs/s")
			own, children = cpuTime(b, unix.RUSAGE_SELF)-own, cpuTime(b, unix.RUSAGE_CHILDREN)-children
			b.ReportMetric(float64((own+children).Milliseconds())/float64(len(ids)), "cpu-ms/run")
			b.ReportMetric(float64(children.Milliseconds())/float64(len(ids)), "node-cpu-ms/run")
		})
	}
}

// cpuTime is that of this process, or of its children that have ended.
func cpuTime(b *testing.B, who int) time.Duration {
	b.Helper()
	var used unix.Rusage
	require.NoError(b, unix.Getrusage(who, &used))
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

type house struct {
	b      *testing.B
	server *mockserver.Server
	next   int
}

func openHouse(b *testing.B, cfg Config, size int) *house {
	b.Helper()
	runtest.Need(b, "node")
	cfg.RepoDir = repo
	engine, err := New(cfg)
	require.NoError(b, err)
	server, err := mockserver.Start(mockserver.Config{OpaqueTokens: true, WakeDebounce: -1})
	require.NoError(b, err)
	worker, err := phxworker.New(phxworker.Config{URL: server.URL(), Secret: server.Secret(), Groups: slots.MustParse(fmt.Sprintf("manual>*:%d", size)), Engine: engine})
	require.NoError(b, err)
	ctx, stop := context.WithCancel(b.Context())
	done := make(chan error, 1)
	go func() { done <- worker.Run(ctx) }()
	b.Cleanup(func() {
		stop()
		require.NoError(b, <-done)
		require.NoError(b, engine.Close())
		require.NoError(b, server.Close())
	})
	return &house{b: b, server: server}
}

func (h *house) enqueue() string {
	h.next++
	id := fmt.Sprint("r", h.next)
	plan := `{"id":"` + id + `","project_id":"p","jobs":[{"id":"a","adaptor":"@openfn/language-common@3.3.4","body":"fn(s => ({ ...s, data: { x: 1 } }))"}]}`
	_, err := h.server.Enqueue(mockserver.Run{Plan: json.RawMessage(plan)})
	require.NoError(h.b, err)
	return id
}

func (h *house) wait(id string) mockserver.RunRecord {
	_, err := h.server.Wait(h.b.Context(), id)
	require.NoError(h.b, err)
	record, _ := h.server.Inspect(id)
	require.Equal(h.b, "success", record.Reason, record.ErrorMessage)
	return record
}
