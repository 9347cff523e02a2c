package metrics

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/phxworker/phxworker"
)

// family is one metric, with all its series.
type family struct {
	name   string
	help   string
	labels []string
	kind   prometheus.ValueType // of numbers
	// read adds the series. None may be added twice.
	read func(now *snapshot, out *series)
}

// families are all metrics of a worker. docs/metrics.md explains each.
var families = slices.Concat(overall, connection, groups, runs, events, engines, extensions)

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
			for i := range now.groups {
				read(&now.groups[i], out)
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
