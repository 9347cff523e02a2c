package claim

import (
	"encoding/json"
	"math"
	"slices"
	"sync"
	"time"
)

const buckets = 22

// bounds are the upper ends of the buckets in seconds: from a wake-up that is
// answered in a fraction of a millisecond to a run that takes hours. They are the
// same everywhere, so that the zero Histogram is ready and any two compare.
var bounds = [buckets - 1]float64{
	0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5,
	1, 2.5, 5, 10, 30, 60, 300, 900, 3600,
}

// Durations counts durations, in memory and without a library, so that every room can
// offer its numbers and a program that embeds them takes on no metrics system. The zero
// value is empty and ready; its methods may be called concurrently.
type Durations struct {
	mu     sync.Mutex
	counts [buckets]uint64 // the last for what is beyond every bound
	sum    time.Duration
}

// Observe counts one duration.
func (h *Durations) Observe(d time.Duration) {
	bucket, _ := slices.BinarySearch(bounds[:], d.Seconds())
	h.mu.Lock()
	defer h.mu.Unlock()
	h.counts[bucket]++
	h.sum += d
}

// Histogram is how long things took, at one moment. As JSON it is the average in seconds; what
// is read back is that average, counted once.
type Histogram struct {
	Count uint64  // durations counted
	Sum   float64 // of them all, in seconds
	// Buckets has, for each upper bound in seconds, how many were not longer.
	// Count also has those beyond the largest bound. Nil when Count is 0.
	Buckets map[float64]uint64
}

// Mean returns the average in seconds, 0 of nothing.
func (h Histogram) Mean() float64 {
	if h.Count == 0 {
		return 0
	}
	return h.Sum / float64(h.Count)
}

// MarshalJSON returns the average, to a hundred-thousandth of a second.
func (h Histogram) MarshalJSON() ([]byte, error) {
	return json.Marshal(math.Round(h.Mean()*1e5) / 1e5)
}

// UnmarshalJSON reads an average.
func (h *Histogram) UnmarshalJSON(data []byte) error {
	*h = Histogram{Count: 1}
	return json.Unmarshal(data, &h.Sum)
}

// Histogram returns the numbers of one moment; they add up.
func (h *Durations) Histogram() Histogram {
	h.mu.Lock()
	counts, sum := h.counts, h.sum
	h.mu.Unlock()
	s := Histogram{Sum: sum.Seconds(), Buckets: make(map[float64]uint64, len(bounds))}
	for i, n := range counts {
		s.Count += n
		if i < len(bounds) {
			s.Buckets[bounds[i]] = s.Count
		}
	}
	if s.Count == 0 {
		s.Buckets = nil
	}
	return s
}
