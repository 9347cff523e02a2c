package slots_test

import (
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/slots"
)

// TestPoolAgainstAModel does what comes to mind in any order, and compares every
// count with a model that only knows the states of the slots.
func TestPoolAgainstAModel(t *testing.T) {
	for seed := range uint64(50) {
		random := rand.New(rand.NewPCG(seed, 0))
		size := random.IntN(5)
		pool := slots.NewPool(slots.Group{Slots: size})
		var claimed, running, freed []*slots.Slot
		take := func(from *[]*slots.Slot) *slots.Slot {
			i := random.IntN(len(*from))
			slot := (*from)[i]
			*from = append((*from)[:i], (*from)[i+1:]...)
			return slot
		}
		for step := range 400 {
			switch random.IntN(6) {
			case 0, 1:
				slot, ok := pool.Reserve()
				require.Equal(t, len(claimed)+len(running) < size, ok, "seed %d step %d", seed, step)
				if ok {
					claimed = append(claimed, slot)
				}
			case 2:
				if len(claimed) > 0 {
					slot := take(&claimed)
					require.True(t, slot.Fill())
					running = append(running, slot)
				}
			case 3:
				from := &claimed
				if random.IntN(2) == 0 {
					from = &running
				}
				if len(*from) > 0 {
					slot := take(from)
					require.True(t, slot.Free())
					freed = append(freed, slot)
				}
			case 4:
				if len(freed) > 0 {
					slot := freed[random.IntN(len(freed))]
					require.False(t, slot.Free())
					require.False(t, slot.Fill())
				}
			case 5:
				size = random.IntN(6)
				pool.Resize(size)
			}
			counts := pool.Counts()
			inUse := len(claimed) + len(running)
			require.Equal(t, slots.Counts{Size: size, Open: max(size-inUse, 0), Claimed: len(claimed), Running: len(running)}, counts, "seed %d step %d", seed, step)
			if inUse <= size {
				require.Equal(t, counts.Size, counts.Open+counts.Claimed+counts.Running)
			}
		}
	}
}

// TestPoolFromManyGoroutines is for the race detector, and that nothing is lost
// or counted twice when everything happens at once.
func TestPoolFromManyGoroutines(t *testing.T) {
	pool := slots.NewPool(slots.Group{Slots: 4})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for i := range 500 {
				slot, ok := pool.Reserve()
				if !ok {
					continue
				}
				if i%2 == 0 {
					slot.Fill()
				}
				counts := pool.Counts()
				if counts.Open+counts.Claimed+counts.Running != counts.Size {
					t.Errorf("the counts do not add up: %+v", counts)
				}
				wg.Go(func() { slot.Free() })
			}
		})
	}
	wg.Wait()
	require.Equal(t, slots.Counts{Size: 4, Open: 4}, pool.Counts())
}
