// Package metrics exports the numbers of a worker to Prometheus. A program that embeds a
// worker mounts [Handler], or registers [NewCollector].
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
	"github.com/phxworker/phxworker/runner/egress"
)

// Source has the numbers: a [*phxworker.Worker]. Stats is called once a scrape,
// concurrently.
type Source interface {
	Stats() phxworker.Stats
}

// Config says what else is exported. The zero value is ready to be used.
type Config struct {
	// Processes returns how many processes the engine has; it must not wait.
	// Defaults to none, as for an engine without processes.
	Processes func() int
	// Egress returns what jobs have exchanged, such as [egress.Guard.Stats]. Defaults to nothing, as for an
	// engine whose jobs connect by themselves.
	Egress func() egress.Stats
	// Version and Commit are what the program was made from. They default to the version of
	// this module, and none.
	Version, Commit string
	// Logger takes what cannot be exported. Defaults to none.
	Logger *slog.Logger
}

const (
	// maxScrapes is how many scrapes are answered at once: two Prometheus servers
	// and a person with curl.
	maxScrapes = 3
	// scrapeTimeout is that of Prometheus, by default.
	scrapeTimeout = 10 * time.Second
)

// Handler answers scrapes with the worker's metrics, and those of the Go runtime and of the
// process, in Prometheus' text format: what a program serves as /metrics that has no
// registry of its own. The default registry is left alone. Too many scrapes at once, and one
// that takes too long, are answered with 503. What cannot be exported is left out and logged.
func Handler(worker Source, cfg Config) http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(
		NewCollector(worker, cfg),
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	return handlerOf(registry, cfg.Logger)
}

// handlerOf answers scrapes with what the registry has. OpenMetrics is not offered: it has
// no place for both the gauge phxworker_engines_stuck and the counter
// phxworker_engines_stuck_total.
func handlerOf(registry *prometheus.Registry, log *slog.Logger) http.Handler {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{
		ErrorLog:            slog.NewLogLogger(log.Handler(), slog.LevelError),
		ErrorHandling:       promhttp.ContinueOnError,
		MaxRequestsInFlight: maxScrapes,
		Timeout:             scrapeTimeout,
	})
}
