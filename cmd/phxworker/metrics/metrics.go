// Package metrics exports the numbers of a worker to Prometheus.
//
// The worker counts by itself; nothing here observes it. Each scrape takes one
// snapshot of [phxworker.Stats] and writes it down, so a worker that nobody scrapes
// pays nothing, and one that is scraped pays for a copy of its numbers. Scrapes may
// be concurrent.
//
// What can be known beforehand is exported from the first scrape, with 0: every
// reason, cause, outcome, group and bucket. Otherwise rate() would not see the
// first of anything, for it came out of nothing. Groups of the same name are one,
// added up.
//
// A scrape does not fail because of what the numbers are. They are those of about
// one moment: a run that ends meanwhile may be counted as ended, and be under way
// still. docs/metrics.md says what each metric is for.
package metrics

import (
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/phxworker/phxworker"
	"github.com/phxworker/phxworker/cmd/phxworker/build"
)

// Config says whose numbers are exported.
type Config struct {
	// Stats returns them, as [phxworker.Worker.Stats] does. It is called once a
	// scrape, concurrently, and must not wait. Required.
	Stats func() phxworker.Stats
	// Processes returns how many engine processes there are; it must not wait
	// either. Defaults to none, as for an engine without processes.
	Processes func() int
	// Build is what the binary was made from.
	Build build.Info
}

// New returns a registry with the worker's metrics, and those of the Go runtime
// and of the process. It is no one else's: the default one is left alone.
func New(cfg Config) *prometheus.Registry {
	registry := prometheus.NewRegistry()
	registry.MustRegister(
		newCollector(cfg),
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	return registry
}

const (
	// maxScrapes is how many scrapes are answered at once: two Prometheus servers
	// and a person with curl.
	maxScrapes = 3
	// scrapeTimeout is that of Prometheus, by default.
	scrapeTimeout = 10 * time.Second
)

// Handler answers scrapes with what the registry has, in Prometheus' text format;
// too many at once, and one that takes too long, with 503. What cannot be exported
// is left out and logged.
//
// OpenMetrics is not offered: it has no place for both the gauge
// phxworker_engines_stuck and the counter phxworker_engines_stuck_total.
func Handler(registry *prometheus.Registry, log *slog.Logger) http.Handler {
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{
		ErrorLog:            slog.NewLogLogger(log.Handler(), slog.LevelError),
		ErrorHandling:       promhttp.ContinueOnError,
		MaxRequestsInFlight: maxScrapes,
		Timeout:             scrapeTimeout,
	})
}
