package histogram_test

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/internal/histogram"
)

func TestDurationsAreCountedUpToTheirBounds(t *testing.T) {
	var h histogram.Histogram
	require.Equal(t, histogram.Snapshot{}, h.Snapshot())

	for _, d := range []time.Duration{0, 100 * time.Microsecond, 101 * time.Microsecond, time.Second, time.Hour, 2 * time.Hour} {
		h.Observe(d)
	}
	s := h.Snapshot()
	require.Equal(t, uint64(6), s.Count)
	require.InDelta(t, 3*3600+1+0.000_201, s.Sum, 1e-9)
	require.Equal(t, uint64(2), s.Buckets[0.000_1], "a bound belongs to its bucket")
	require.Equal(t, uint64(3), s.Buckets[0.000_25])
	require.Equal(t, uint64(3), s.Buckets[0.5])
	require.Equal(t, uint64(4), s.Buckets[1])
	require.Equal(t, uint64(5), s.Buckets[3600], "two hours are only in Count")
}

func TestObservingConcurrently(t *testing.T) {
	var h histogram.Histogram
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 1000 {
				h.Observe(time.Millisecond)
			}
		})
	}
	all.Wait()
	require.Equal(t, uint64(8000), h.Snapshot().Count)
	require.InDelta(t, 8, h.Snapshot().Sum, 1e-6)
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
		var h histogram.Histogram
		b.ReportAllocs()
		for i := range b.N {
			h.Observe(time.Duration(i) * time.Microsecond)
		}
	})
}
