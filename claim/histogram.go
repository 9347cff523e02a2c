package claim

import (
	"encoding/json"
	"math"
	"slices"
	"time"
)

// bounds are the upper ends of the buckets in seconds, from a fast wake-up to a long run. All
// histograms have the same, so that the zero Histogram is ready.
var bounds = [...]float64{
	0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5,
	1, 2.5, 5, 10, 30, 60, 300, 900, 3600,
}

// Histogram counts durations. It needs no metrics library, so a program that embeds a worker need not
// link one. The zero value is ready to use, and a copy has the numbers of one moment. It has no lock:
// guard concurrent calls yourself. As JSON it is the average in seconds; reading that back gives a
// Histogram with this average, counted once.
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

// Buckets returns, for each upper bound in seconds, how many durations were not longer. Count also
// includes those beyond the largest bound.
func (h *Histogram) Buckets() map[float64]uint64 {
	buckets, sum := make(map[float64]uint64, len(bounds)), uint64(0)
	for i, n := range h.counts {
		sum += n
		buckets[bounds[i]] = sum
	}
	return buckets
}

// Mean returns the average in seconds, 0 if there is none.
func (h *Histogram) Mean() float64 {
	if h.Count == 0 {
		return 0
	}
	return h.Sum / float64(h.Count)
}

// MarshalJSON returns the average, rounded to a hundred-thousandth of a second.
func (h Histogram) MarshalJSON() ([]byte, error) {
	return json.Marshal(math.Round(h.Mean()*1e5) / 1e5)
}

// UnmarshalJSON reads an average.
func (h *Histogram) UnmarshalJSON(data []byte) error {
	*h = Histogram{Count: 1}
	return json.Unmarshal(data, &h.Sum)
}
