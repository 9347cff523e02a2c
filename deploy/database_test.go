package deploy

import (
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/stretchr/testify/require"
)

// recorded is a database of some series in promtool's notation, a value a minute.
func recorded(t *testing.T, series []string) storage.Queryable {
	t.Helper()
	var all []storage.Series
	for _, text := range series {
		name, values, err := parser.NewParser(parser.Options{}).ParseSeriesDesc(text)
		require.NoError(t, err, text)
		var samples []chunks.Sample
		for minute, value := range values {
			samples = append(samples, sample{at: int64(minute) * time.Minute.Milliseconds(), value: value.Value})
		}
		all = append(all, storage.NewListSeries(name, samples))
	}
	return &storage.MockQueryable{MockQuerier: &storage.MockQuerier{
		SelectMockFunction: func(_ bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
			found := set{SeriesSet: storage.EmptySeriesSet()}
			for _, s := range all {
				if matches(s.Labels(), matchers) {
					found.series = append(found.series, s)
				}
			}
			return &found
		},
	}}
}

func matches(l labels.Labels, matchers []*labels.Matcher) bool {
	for _, m := range matchers {
		if !m.Matches(l.Get(m.Name)) {
			return false
		}
	}
	return true
}

type set struct {
	series            []storage.Series
	next              int
	storage.SeriesSet // for what it says of errors: nothing
}

func (s *set) Next() bool         { s.next++; return s.next <= len(s.series) }
func (s *set) At() storage.Series { return s.series[s.next-1] }

type sample struct {
	at    int64 // ms
	value float64
}

var _ chunks.Sample = sample{}

func (s sample) T() int64                      { return s.at }
func (s sample) ST() int64                     { return 0 }
func (s sample) F() float64                    { return s.value }
func (s sample) H() *histogram.Histogram       { return nil }
func (s sample) FH() *histogram.FloatHistogram { return nil }
func (s sample) Type() chunkenc.ValueType      { return chunkenc.ValFloat }
func (s sample) Copy() chunks.Sample           { return s }
