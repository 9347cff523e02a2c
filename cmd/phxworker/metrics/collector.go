package metrics

import (
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/phxworker/phxworker"
	"github.com/phxworker/phxworker/runner/egress"
)

// collector turns a snapshot of the worker's numbers into metrics, at each scrape.
type collector struct {
	worker Source
	cfg    Config
	descs  []*prometheus.Desc // of families
}

var _ prometheus.Collector = (*collector)(nil)

// NewCollector returns a collector of a worker's metrics, for a registry of the program's
// own. Of several workers of one process, each needs a registry, or labels
// ([prometheus.WrapRegistererWith]), of its own.
func NewCollector(worker Source, cfg Config) prometheus.Collector {
	if cfg.Processes == nil {
		cfg.Processes = func() int { return 0 }
	}
	if cfg.Egress == nil {
		cfg.Egress = func() egress.Stats { return egress.Stats{} }
	}
	if cfg.Version == "" {
		cfg.Version = phxworker.Version()
	}
	c := &collector{worker: worker, cfg: cfg}
	for i := range families {
		f := &families[i]
		c.descs = append(c.descs, prometheus.NewDesc(f.name, f.help, f.labels, nil))
	}
	return c
}

// Describe implements [prometheus.Collector].
func (c *collector) Describe(descs chan<- *prometheus.Desc) {
	for _, desc := range c.descs {
		descs <- desc
	}
}

// Collect implements [prometheus.Collector].
func (c *collector) Collect(metrics chan<- prometheus.Metric) {
	stats := c.worker.Stats()
	now := &snapshot{Stats: stats, at: time.Now(), processes: c.cfg.Processes(), egress: c.cfg.Egress(), version: c.cfg.Version, commit: c.cfg.Commit}
	for i := range families {
		f := &families[i]
		f.read(now, &series{desc: c.descs[i], kind: f.kind, metrics: metrics})
	}
}

// snapshot is what one scrape is answered from.
type snapshot struct {
	phxworker.Stats

	at              time.Time
	processes       int
	egress          egress.Stats
	version, commit string
}

// family is one metric, with all its series.
type family struct {
	name   string
	help   string
	labels []string
	kind   prometheus.ValueType // of numbers
	// read adds the series. None may be added twice.
	read func(now *snapshot, out *series)
}

// single is a metric that has one series.
func single(kind prometheus.ValueType, name, help string, value func(*snapshot) float64) family {
	return family{name: name, help: help, kind: kind, read: func(now *snapshot, out *series) { out.number(value(now)) }}
}

func gauge(name, help string, value func(*snapshot) float64) family {
	return single(prometheus.GaugeValue, name, help, value)
}

func counter(name, help string, value func(*snapshot) float64) family {
	return single(prometheus.CounterValue, name, help, value)
}

// durations is a histogram that has one series.
func durations(name, help string, value func(*snapshot) phxworker.Histogram) family {
	return family{name: name, help: help, read: func(now *snapshot, out *series) { out.durations(value(now)) }}
}

// byGroup is a metric that has series for each slot group. Its first label is the
// group's name; labels are the others. read adds the series of one group.
func byGroup(kind prometheus.ValueType, name, help string, labels []string, read func(g *phxworker.GroupStats, out *series)) family {
	return family{
		name: name, help: help, kind: kind, labels: append([]string{"group"}, labels...),
		read: func(now *snapshot, out *series) {
			for i := range now.Groups {
				read(&now.Groups[i], out)
			}
		},
	}
}

// groupCounter is a counter that has one series for each slot group.
func groupCounter(name, help string, value func(*phxworker.GroupStats) uint64) family {
	return byGroup(prometheus.CounterValue, name, help, nil, func(g *phxworker.GroupStats, out *series) {
		out.number(float64(value(g)), g.Name)
	})
}

// byKey is a counter that has a series for each key: those known, and any other
// that was counted.
func byKey[K ~string, N int | uint64](name, help, label string, known []K, counts func(*snapshot) map[K]N) family {
	return family{
		name: name, help: help, labels: []string{label}, kind: prometheus.CounterValue,
		read: func(now *snapshot, out *series) {
			counted := counts(now)
			for _, key := range known {
				out.number(float64(counted[key]), string(key))
			}
			for key, n := range counted {
				if !slices.Contains(known, key) {
					out.number(float64(n), string(key))
				}
			}
		},
	}
}

// bit is a yes or no as a number.
func bit(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

// series takes the series of one metric.
type series struct {
	desc    *prometheus.Desc
	kind    prometheus.ValueType
	metrics chan<- prometheus.Metric
}

// number adds a series with a value. Its labels are in the order of the metric's.
func (s *series) number(value float64, labels ...string) {
	s.metrics <- prometheus.MustNewConstMetric(s.desc, s.kind, value, readable(labels)...)
}

// durations adds a series that is a histogram.
func (s *series) durations(h phxworker.Histogram, labels ...string) {
	s.metrics <- prometheus.MustNewConstHistogram(s.desc, h.Count, h.Sum, h.Buckets(), readable(labels)...)
}

// readable makes of the labels what Prometheus takes, which is any UTF-8.
func readable(labels []string) []string {
	for i, label := range labels {
		labels[i] = strings.ToValidUTF8(label, "\uFFFD")
	}
	return labels
}
