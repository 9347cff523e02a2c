package extended

import (
	"hash/fnv"
	"slices"
)

// seats gives keys to workers by jump consistent hash (Lamping and Veach, "A Fast,
// Minimal Memory, Consistent Hash Algorithm", 2014), which knows numbers from 0 to n-1 only
// and moves few keys when n changes. So a worker keeps its number, its seat, while
// it is there; sorting the workers by name instead would give most of them another
// one whenever one comes or goes. When one leaves, its seat stays empty, and only its keys go
// elsewhere; the next to come takes it, and they come back.
//
// It is not safe for concurrent use.
type seats struct{ all []seat }

type seat struct {
	worker string // who sits here, or was the last to
	taken  bool
}

// sit gives a worker its seat: the one that it had, the first that is free, or a
// new one.
func (s *seats) sit(worker string) {
	i := slices.IndexFunc(s.all, func(x seat) bool { return x.worker == worker })
	if i < 0 {
		i = slices.IndexFunc(s.all, func(x seat) bool { return !x.taken })
	}
	if i < 0 {
		i = len(s.all)
		s.all = append(s.all, seat{})
	}
	s.all[i] = seat{worker: worker, taken: true}
}

// rise frees the seat of a worker, if it has one.
func (s *seats) rise(worker string) {
	for i := range s.all {
		if s.all[i].worker == worker {
			s.all[i].taken = false
		}
	}
	for len(s.all) > 0 && !s.all[len(s.all)-1].taken {
		s.all = s.all[:len(s.all)-1]
	}
}

// of returns the worker that a key belongs to; empty if there is no worker.
func (s *seats) of(key string) (worker string) {
	if len(s.all) == 0 {
		return ""
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(key)) // a hash never fails
	draw := h.Sum64()
	for range maxDraws {
		draw = mix(draw)
		if x := s.all[jump(draw, len(s.all))]; x.taken {
			return x.worker
		}
		// Empty: its keys are drawn anew, each on its own, so they spread.
	}
	return s.all[len(s.all)-1].worker // rise leaves that one taken
}

// maxDraws bounds the search among seats of which nearly all are empty.
const maxDraws = 64

// jump is the hash of Lamping and Veach: a bucket from 0 to n-1.
func jump(key uint64, n int) int {
	b, j := int64(-1), int64(0)
	for j < int64(n) {
		b = j
		key = key*2862933555777941757 + 1
		j = int64(float64(b+1) * (float64(1<<31) / float64(key>>33+1)))
	}
	return int(b)
}

// mix is the finalizer of SplitMix64: it makes of numbers that are alike ones that
// are not.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
