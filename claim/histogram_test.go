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
	var h claim.Durations
	require.Equal(t, claim.Histogram{}, h.Histogram())

	for _, d := range []time.Duration{0, 100 * time.Microsecond, 101 * time.Microsecond, time.Second, time.Hour, 2 * time.Hour} {
		h.Observe(d)
	}
	s := h.Histogram()
	require.Equal(t, uint64(6), s.Count)
	require.InDelta(t, 3*3600+1+0.000_201, s.Sum, 1e-9)
	require.Equal(t, uint64(2), s.Buckets[0.000_1], "a bound belongs to its bucket")
	require.Equal(t, uint64(3), s.Buckets[0.000_25])
	require.Equal(t, uint64(3), s.Buckets[0.5])
	require.Equal(t, uint64(4), s.Buckets[1])
	require.Equal(t, uint64(5), s.Buckets[3600], "two hours are only in Count")
}

func TestAHistogramIsWrittenAsItsAverage(t *testing.T) {
	var some claim.Durations
	for _, d := range []time.Duration{time.Second, 2 * time.Second, 2 * time.Hour} {
		some.Observe(d)
	}
	for want, h := range map[string]claim.Histogram{"0": {}, "2401": some.Histogram()} {
		text, err := json.Marshal(h)
		require.NoError(t, err)
		require.Equal(t, want, string(text))
		var back claim.Histogram
		require.NoError(t, json.Unmarshal(text, &back))
		require.InDelta(t, h.Mean(), back.Mean(), 1e-5)
	}
}

func TestObservingConcurrently(t *testing.T) {
	var h claim.Durations
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 1000 {
				h.Observe(time.Millisecond)
			}
		})
	}
	all.Wait()
	require.Equal(t, uint64(8000), h.Histogram().Count)
	require.InDelta(t, 8, h.Histogram().Sum, 1e-6)
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
		var h claim.Durations
		b.ReportAllocs()
		for i := range b.N {
			h.Observe(time.Duration(i) * time.Microsecond)
		}
	})
}
