//go:build unix

package js_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker"
	"github.com/phxworker/phxworker/mockserver"
	"github.com/phxworker/phxworker/runner"
	"github.com/phxworker/phxworker/runner/egress"
	"github.com/phxworker/phxworker/runner/js"
	"github.com/phxworker/phxworker/slots"
)

// BenchmarkRuns takes runs of one job through a worker of five slots, over TCP, the mock server's part included; "no engine"
// is what there would be without one. On a machine that others use as well, the processor's time says more than the clock.
func BenchmarkRuns(b *testing.B) {
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"a":1}`))
	}))
	b.Cleanup(page.Close)
	for _, tt := range []struct{ name, adaptor, body string }{
		{"no engine", "common@3.3.4", "fn(s => s)"},
		{"fn", "common@3.3.4", "fn(s => s)"},
		{"all of common", "common@3.3.4", "import * as all from '@openfn/language-common'; all.fn(s => ({ ...s, n: Object.keys(all).length }))"},
		{"get", "http@7.2.10", "get('" + page.URL + "')"},
	} {
		b.Run(tt.name, func(b *testing.B) {
			engine := runner.Engine(phxworker.Func(func(context.Context, *phxworker.Run) (any, error) { return map[string]int{}, nil }))
			switch tt.name {
			case "no engine":
			case "fn":
				engine = js.New(js.Config{})
			default:
				engine = js.New(js.Config{Packages: published(b), Egress: egress.New(egress.Config{Policy: egress.MustParse("any")})})
			}
			h := openHouse(b, engine, tt.adaptor, tt.body)
			h.wait(h.enqueue()) // what is made once is made
			b.ReportAllocs()
			b.ResetTimer()
			used := processorTime(b)
			ids := make([]string, b.N)
			for i := range ids {
				ids[i] = h.enqueue()
			}
			for _, id := range ids {
				h.wait(id)
			}
			b.StopTimer()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "runs/s")
			b.ReportMetric(float64((processorTime(b)-used).Microseconds())/1000/float64(b.N), "cpu-ms/run")
		})
	}
}

// BenchmarkWake measures an idle worker, over TCP: from the enqueueing of a run until the server has its run:start and its
// run:complete, at the median.
func BenchmarkWake(b *testing.B) {
	h := openHouse(b, js.New(js.Config{}), "common@3.3.4", "fn(s => s)")
	h.wait(h.enqueue())
	var start, complete []time.Duration
	for b.Loop() {
		time.Sleep(20 * time.Millisecond) // what follows a run is over
		id := h.enqueue()
		record := h.wait(id)
		start = append(start, record.StartedAt.Sub(record.EnqueuedAt))
		complete = append(complete, record.FinishedAt.Sub(record.EnqueuedAt))
	}
	for name, all := range map[string][]time.Duration{"ms-to-start": start, "ms-to-complete": complete} {
		slices.Sort(all)
		b.ReportMetric(float64(all[len(all)/2].Microseconds())/1000, name)
	}
}

// house is a mock server, and a worker of five slots for it.
type house struct {
	b             *testing.B
	server        *mockserver.Server
	adaptor, body string
	next          int
}

func openHouse(b *testing.B, engine runner.Engine, adaptor, body string) *house {
	b.Helper()
	server, err := mockserver.Start(mockserver.Config{OpaqueTokens: true, WakeDebounce: -1})
	require.NoError(b, err)
	worker, err := phxworker.New(phxworker.Config{URL: server.URL(), Secret: server.Secret(), Groups: slots.MustParse("manual>*:5"), Engine: engine})
	require.NoError(b, err)
	ctx, stop := context.WithCancel(b.Context())
	done := make(chan error, 1)
	go func() { done <- worker.Run(ctx) }()
	b.Cleanup(func() {
		stop()
		require.NoError(b, <-done)
		require.NoError(b, server.Close())
	})
	return &house{b: b, server: server, adaptor: adaptor, body: body}
}

func (h *house) enqueue() string {
	h.next++
	id := fmt.Sprint("r", h.next)
	body, _ := json.Marshal(h.body)
	plan := `{"id":"` + id + `","project_id":"p","jobs":[{"id":"a","adaptor":"@openfn/language-` + h.adaptor + `","body":` + string(body) + `}]}`
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

// processorTime is what this process has used so far.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var used syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &used))
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
