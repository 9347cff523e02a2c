package claim

import (
	"encoding/json"
	"math"
	"slices"
	"time"
)

// bounds are the upper ends of the buckets in seconds: from a wake-up that is
// answered in a fraction of a millisecond to a run that takes hours. They are the
// same everywhere, so that the zero Histogram is ready.
var bounds = [...]float64{
	0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5,
	1, 2.5, 5, 10, 30, 60, 300, 900, 3600,
}

// Histogram counts durations, in memory and without a library, so that every room can
// offer its numbers and a program that embeds them takes on no metrics system. The zero
// value is empty and ready, and a copy is the numbers of one moment; whoever observes guards it.
// As JSON it is the average in seconds; what is read back is that average, counted once.
type Histogram struct {
	Count  uint64  // durations counted
	Sum    float64 // of them all, in seconds
	counts [len(bounds)]uint64
}

// Observe counts one duration.
func (h *Histogram) Observe(d time.Duration) {
	h.Count++
	h.Sum += d.Seconds()
	if i, _ := slices.BinarySearch(bounds[:], d.Seconds()); i < len(bounds) {
		h.counts[i]++
	}
}

// Buckets returns, for each upper bound in seconds, how many were not longer.
// Count also has those beyond the largest bound.
func (h *Histogram) Buckets() map[float64]uint64 {
	buckets, sum := make(map[float64]uint64, len(bounds)), uint64(0)
	for i, n := range h.counts {
		sum += n
		buckets[bounds[i]] = sum
	}
	return buckets
}

// Mean returns the average in seconds, 0 of nothing.
func (h *Histogram) Mean() float64 {
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
