package metrics

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker"
	"github.com/phxworker/phxworker/claim"
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
	own.MustRegister(NewCollector(fixed(stats), Config{}))
	everything := prometheus.NewRegistry()
	everything.MustRegister(NewCollector(fixed(stats), Config{}), collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	for _, bench := range []struct {
		name     string
		registry *prometheus.Registry
	}{
		{"empty", prometheus.NewRegistry()},
		{"runtime and process", common},
		{"worker alone", own},
		{"all", everything},
	} {
		b.Run(bench.name, func(b *testing.B) {
			handler := handlerOf(bench.registry, nil)
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
	var taken claim.Histogram
	for n := range 1000 {
		taken.Observe(time.Duration(n) * time.Millisecond)
	}
	stats := phxworker.Stats{
		Ended: map[phxworker.Reason]int{runner.Success: 1000}, Times: phxworker.TimeStats{Run: taken, ClaimToStart: taken, WakeToStart: taken},
		Delivery: runner.Stats{Stats: delivery.Stats{Acknowledged: taken}},
		Groups:   []phxworker.GroupStats{{Name: "fast_lane", Stats: claim.Stats{Answered: taken}}, {Name: "manual>*", Stats: claim.Stats{Answered: taken}}},
	}
	for n := range 90 {
		stats.Runs = append(stats.Runs, phxworker.RunStats{Progress: runner.Progress{Claimed: time.Now(), RunID: fmt.Sprint("run-", n), Unacknowledged: n}})
	}
	return stats
}
