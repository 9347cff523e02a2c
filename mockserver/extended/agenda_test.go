package extended

import (
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
