package extended

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Whatever is added and dropped, what is left is done in the order of time.
func TestAgenda(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	start := time.Now()
	var a agenda
	var got []time.Duration
	var all []*deadline
	for range 500 {
		after := time.Duration(random.IntN(1000))
		all = append(all, a.add(start.Add(after), func(time.Time) { got = append(got, after) }))
		if random.IntN(3) == 0 {
			i := random.IntN(len(all))
			a.drop(all[i])
			a.drop(all[i]) // again is nothing
		}
	}
	a.drop(nil)
	left := len(a.due)
	next := a.pass(start.Add(500))
	require.True(t, next.After(start.Add(500)))
	require.Zero(t, a.pass(start.Add(1000)))
	require.Len(t, got, left)
	require.IsNonDecreasing(t, got)
}

const keys = 20_000

// homes returns the worker of each of many keys.
func homes(s *seats) []string {
	all := make([]string, keys)
	for i := range all {
		all[i] = s.of(fmt.Sprint("customer-", i))
	}
	return all
}

func seated(n int) *seats {
	s := &seats{}
	for i := range n {
		s.sit(fmt.Sprint("worker-", i))
	}
	return s
}

func TestKeysAreSpreadEvenly(t *testing.T) {
	for _, n := range []int{1, 2, 3, 10, 50} {
		share := make(map[string]int)
		for _, worker := range homes(seated(n)) {
			share[worker]++
		}
		require.Len(t, share, n)
		for worker, count := range share {
			require.InEpsilon(t, keys/n, count, 0.25, worker)
		}
	}
}

// Only the keys of a worker that leaves go elsewhere, to all the others; and they come
// back to it, or to the one that takes its seat.
func TestFewKeysMove(t *testing.T) {
	const n = 10
	s := seated(n)
	before := homes(s)
	s.rise("worker-3")
	without := homes(s)
	heirs := make(map[string]int)
	for i := range keys {
		if before[i] != "worker-3" {
			require.Equal(t, before[i], without[i])
			continue
		}
		heirs[without[i]]++
	}
	require.Len(t, heirs, n-1)
	for heir, count := range heirs {
		require.InEpsilon(t, keys/n/(n-1), count, 0.35, heir)
	}

	s.sit("worker-3")
	require.Equal(t, before, homes(s), "the same as before")
	s.rise("worker-3")
	s.sit("new")
	for i, worker := range homes(s) {
		if before[i] == "worker-3" {
			before[i] = "new"
		}
		require.Equal(t, before[i], worker)
	}

	// One more worker takes its share from the others, and nothing moves between those.
	s.sit("eleventh")
	moved := 0
	for i, worker := range homes(s) {
		if worker != before[i] {
			require.Equal(t, "eleventh", worker)
			moved++
		}
	}
	require.InEpsilon(t, keys/(n+1), moved, 0.1)
}

// The last of many that have left still has all keys.
func TestOneWorkerAmongEmptySeats(t *testing.T) {
	s := seated(500)
	for i := range 499 {
		s.rise(fmt.Sprint("worker-", i))
	}
	for _, worker := range homes(s) {
		require.Equal(t, "worker-499", worker)
	}
	s.rise("worker-499")
	require.Empty(t, s.all)
	require.Empty(t, s.of("any"))
	s.rise("nobody")
}
