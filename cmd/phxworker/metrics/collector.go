package metrics

import (
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/phxworker/phxworker"
	"github.com/phxworker/phxworker/cmd/phxworker/build"
	"github.com/phxworker/phxworker/internal/histogram"
)

// collector turns a snapshot of the worker's numbers into metrics, at each scrape.
type collector struct {
	cfg   Config
	descs []*prometheus.Desc // of families
	empty map[float64]uint64 // the buckets of a histogram that has counted nothing
}

var _ prometheus.Collector = (*collector)(nil)

func newCollector(cfg Config) *collector {
	if cfg.Processes == nil {
		cfg.Processes = func() int { return 0 }
	}
	c := &collector{cfg: cfg, empty: noneCounted()}
	for i := range families {
		f := &families[i]
		c.descs = append(c.descs, prometheus.NewDesc(f.name, f.help, f.labels, nil))
	}
	return c
}

// noneCounted returns the buckets that all histograms of the worker have.
func noneCounted() map[float64]uint64 {
	var h histogram.Histogram
	h.Observe(0) // without a duration, a snapshot has no buckets
	buckets := h.Snapshot().Buckets
	for bound := range buckets {
		buckets[bound] = 0
	}
	return buckets
}

// Describe implements [prometheus.Collector].
func (c *collector) Describe(descs chan<- *prometheus.Desc) {
	for _, desc := range c.descs {
		descs <- desc
	}
}

// Collect implements [prometheus.Collector].
func (c *collector) Collect(metrics chan<- prometheus.Metric) {
	stats := c.cfg.Stats()
	now := &snapshot{Stats: stats, at: time.Now(), groups: merge(stats.Groups), processes: c.cfg.Processes(), build: c.cfg.Build}
	for i := range families {
		f := &families[i]
		f.read(now, &series{desc: c.descs[i], kind: f.kind, empty: c.empty, metrics: metrics})
	}
}

// snapshot is what one scrape is answered from.
type snapshot struct {
	phxworker.Stats

	at        time.Time
	groups    []phxworker.GroupStats // no two of the same name
	processes int
	build     build.Info
}

// merge adds up groups of the same name, which a worker may have.
func merge(groups []phxworker.GroupStats) []phxworker.GroupStats {
	var merged []phxworker.GroupStats
	for _, g := range groups {
		i := slices.IndexFunc(merged, func(m phxworker.GroupStats) bool { return m.Name == g.Name })
		if i < 0 {
			merged = append(merged, g)
			continue
		}
		m := &merged[i]
		m.Paused = m.Paused && g.Paused // one that claims is enough for the name to
		m.Size += g.Size
		m.Claimed += g.Claimed
		m.Running += g.Running
		m.Claims.Brought += g.Claims.Brought
		m.Claims.Empty += g.Claims.Empty
		m.Claims.Failed += g.Claims.Failed
		m.Claims.HeldBack += g.Claims.HeldBack
		m.Claims.Refused += g.Claims.Refused
		m.Claims.Wakes += g.Claims.Wakes
		m.Claims.Coalesced += g.Claims.Coalesced
		m.Claims.Exhausted += g.Claims.Exhausted
		m.Claims.Prefetched += g.Claims.Prefetched
		m.Claims.Returned += g.Claims.Returned
		// ClaimSeconds is kept by name: each of them has that of all.
	}
	return merged
}

// series takes the series of one metric.
type series struct {
	desc    *prometheus.Desc
	kind    prometheus.ValueType
	empty   map[float64]uint64
	metrics chan<- prometheus.Metric
}

// number adds a series with a value. Its labels are in the order of the metric's.
func (s *series) number(value float64, labels ...string) {
	s.metrics <- prometheus.MustNewConstMetric(s.desc, s.kind, value, readable(labels)...)
}

// durations adds a series that is a histogram.
func (s *series) durations(h phxworker.Histogram, labels ...string) {
	if h.Buckets == nil {
		h.Buckets = s.empty
	}
	s.metrics <- prometheus.MustNewConstHistogram(s.desc, h.Count, h.Sum, h.Buckets, readable(labels)...)
}

// readable makes of the labels what Prometheus takes, which is any UTF-8.
func readable(labels []string) []string {
	for i, label := range labels {
		labels[i] = strings.ToValidUTF8(label, "\uFFFD")
	}
	return labels
}
