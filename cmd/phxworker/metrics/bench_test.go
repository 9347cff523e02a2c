package metrics

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker"
	"github.com/phxworker/phxworker/internal/histogram"
	"github.com/phxworker/phxworker/runner"
	"github.com/phxworker/phxworker/runner/delivery"
)

// BenchmarkScrape measures an answer without the network: of a registry that is
// empty, of one with the metrics of runtime and process that any Go program has,
// and of a worker's with two groups and 90 runs.
func BenchmarkScrape(b *testing.B) {
	common := prometheus.NewRegistry()
	common.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	stats := busy()
	own := prometheus.NewRegistry()
	own.MustRegister(newCollector(Config{Stats: func() phxworker.Stats { return stats }}))
	for _, bench := range []struct {
		name     string
		registry *prometheus.Registry
	}{
		{"empty", prometheus.NewRegistry()},
		{"runtime and process", common},
		{"worker alone", own},
		{"all", New(Config{Stats: func() phxworker.Stats { return stats }})},
	} {
		b.Run(bench.name, func(b *testing.B) {
			handler := Handler(bench.registry, slog.New(slog.DiscardHandler))
			b.ReportAllocs()
			for b.Loop() {
				recorder := httptest.NewRecorder()
				handler.ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, "/metrics", nil))
				require.Equal(b, http.StatusOK, recorder.Code)
			}
		})
	}
}

// busy is what a worker with two groups and 90 runs returns.
func busy() phxworker.Stats {
	var h histogram.Histogram
	for n := range 1000 {
		h.Observe(time.Duration(n) * time.Millisecond)
	}
	taken := h.Snapshot()
	stats := phxworker.Stats{
		Ended: map[phxworker.Reason]int{runner.Success: 1000}, RunSeconds: taken, ClaimToStart: taken, WakeToStart: taken,
		Delivery: runner.Stats{Stats: delivery.Stats{Acknowledged: taken}},
		Groups:   []phxworker.GroupStats{{Name: "fast_lane", ClaimSeconds: taken}, {Name: "manual>*", ClaimSeconds: taken}},
	}
	for n := range 90 {
		stats.Runs = append(stats.Runs, phxworker.RunStats{Claimed: time.Now(), Progress: runner.Progress{RunID: fmt.Sprint("run-", n), Unacknowledged: n}})
	}
	return stats
}
