package claim_test

import (
	"encoding/json"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/claim"
)

func TestDurationsAreCountedUpToTheirBounds(t *testing.T) {
	var h claim.Histogram
	require.Len(t, h.Buckets(), 21, "of nothing, too")

	for _, d := range []time.Duration{0, 100 * time.Microsecond, 101 * time.Microsecond, time.Second, time.Hour, 2 * time.Hour} {
		h.Observe(d)
	}
	require.Equal(t, uint64(6), h.Count)
	require.InDelta(t, 3*3600+1+0.000_201, h.Sum, 1e-9)
	require.Equal(t, uint64(2), h.Buckets()[0.000_1], "a bound belongs to its bucket")
	require.Equal(t, uint64(3), h.Buckets()[0.000_25])
	require.Equal(t, uint64(3), h.Buckets()[0.5])
	require.Equal(t, uint64(4), h.Buckets()[1])
	require.Equal(t, uint64(5), h.Buckets()[3600], "two hours are only in Count")
}

func TestAHistogramIsWrittenAsItsAverage(t *testing.T) {
	var some claim.Histogram
	for _, d := range []time.Duration{time.Second, 2 * time.Second, 2 * time.Hour} {
		some.Observe(d)
	}
	for want, h := range map[string]claim.Histogram{"0": {}, "2401": some} {
		text, err := json.Marshal(h)
		require.NoError(t, err)
		require.Equal(t, want, string(text))
		var back claim.Histogram
		require.NoError(t, json.Unmarshal(text, &back))
		require.InDelta(t, h.Mean(), back.Mean(), 1e-5)
	}
}

// BenchmarkObserve is beside an addition under a lock, the least it could be.
func BenchmarkObserve(b *testing.B) {
	b.Run("baseline", func(b *testing.B) {
		var mu sync.Mutex
		n := 0
		b.ReportAllocs()
		for range b.N {
			mu.Lock()
			n++
			mu.Unlock()
		}
	})
	b.Run("histogram", func(b *testing.B) {
		var h claim.Histogram
		b.ReportAllocs()
		for i := range b.N {
			h.Observe(time.Duration(i) * time.Microsecond)
		}
	})
}
