package slots_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/slots"
)

func TestSlotLife(t *testing.T) {
	pool := slots.NewPool(slots.Plain(2)[0])
	require.Equal(t, slots.Counts{Size: 2, Open: 2}, pool.Counts())

	slot, ok := pool.Reserve()
	require.True(t, ok)
	require.Equal(t, slots.Counts{Size: 2, Open: 1, Claimed: 1}, pool.Counts())

	require.True(t, slot.Fill())
	require.Equal(t, slots.Counts{Size: 2, Open: 1, Running: 1}, pool.Counts())

	require.True(t, slot.Free())
	require.Equal(t, slots.Counts{Size: 2, Open: 2}, pool.Counts())
}

func TestReserveRefusesWhenNoneIsOpen(t *testing.T) {
	pool := slots.NewPool(slots.Plain(1)[0])
	slot, ok := pool.Reserve()
	require.True(t, ok)
	_, ok = pool.Reserve()
	require.False(t, ok, "a claimed slot counts")
	slot.Fill()
	_, ok = pool.Reserve()
	require.False(t, ok, "a running slot counts")
	slot.Free()
	_, ok = pool.Reserve()
	require.True(t, ok)
}

func TestASecondFreeOpensNothingAndTells(t *testing.T) {
	pool := slots.NewPool(slots.Plain(2)[0])
	first, _ := pool.Reserve()
	second, _ := pool.Reserve()
	first.Fill()
	second.Fill()

	require.True(t, first.Free())
	require.False(t, first.Free())
	require.Equal(t, slots.Counts{Size: 2, Open: 1, Running: 1}, pool.Counts(), "r2 keeps its slot")
	require.False(t, first.Fill(), "a freed slot holds nothing")
	require.Equal(t, slots.Counts{Size: 2, Open: 1, Running: 1}, pool.Counts())
}

func TestASlotHoldsOneRunInItsLife(t *testing.T) {
	pool := slots.NewPool(slots.Plain(1)[0])
	slot, _ := pool.Reserve()
	require.True(t, slot.Fill())
	require.False(t, slot.Fill())
	require.Equal(t, slots.Counts{Size: 1, Running: 1}, pool.Counts())
}

func TestADroppedSlotStaysVisible(t *testing.T) {
	pool := slots.NewPool(slots.Plain(2)[0])
	func() {
		slot, ok := pool.Reserve()
		require.True(t, ok)
		slot.Fill()
	}()
	require.Equal(t, slots.Counts{Size: 2, Open: 1, Running: 1}, pool.Counts())
}

func TestARunKeepsItsGroupForLife(t *testing.T) {
	groups, err := slots.Parse("fast_lane:1 manual>*:1")
	require.NoError(t, err)
	fast, rest := slots.NewPool(groups[0]), slots.NewPool(groups[1])

	slot, _ := fast.Reserve()
	slot.Fill()
	other, _ := rest.Reserve()
	other.Fill()
	require.Equal(t, "fast_lane", slot.Group().Name)

	slot.Free()
	require.Equal(t, 1, fast.Counts().Open)
	require.Equal(t, 0, rest.Counts().Open)
	require.True(t, woken(fast))
	require.False(t, woken(rest), "only the group of the run is woken")
}

func TestFreed(t *testing.T) {
	fill := func(pool *slots.Pool, n int) (held []*slots.Slot) {
		for range n {
			slot, ok := pool.Reserve()
			if ok {
				slot.Fill()
				held = append(held, slot)
			}
		}
		return held
	}
	tests := []struct {
		name  string
		size  int
		do    func(pool *slots.Pool)
		woken bool
	}{
		{name: "a run ended", size: 1, woken: true, do: func(pool *slots.Pool) { fill(pool, 1)[0].Free() }},
		{name: "a slot came back without a run", size: 1, woken: false, do: func(pool *slots.Pool) {
			slot, _ := pool.Reserve()
			slot.Free()
		}},
		{name: "the pool grew", size: 1, woken: true, do: func(pool *slots.Pool) {
			fill(pool, 1)
			pool.Resize(2)
		}},
		{name: "the pool grew, but not beyond what is in use", size: 3, woken: false, do: func(pool *slots.Pool) {
			fill(pool, 3)
			pool.Resize(1)
			pool.Resize(2)
		}},
		{name: "the pool shrank", size: 3, woken: false, do: func(pool *slots.Pool) { pool.Resize(2) }},
		{name: "a run ended while more are in use than fit", size: 2, woken: false, do: func(pool *slots.Pool) {
			held := fill(pool, 2)
			pool.Resize(1)
			held[0].Free()
		}},
		{name: "the run that made room after a shrink", size: 2, woken: true, do: func(pool *slots.Pool) {
			held := fill(pool, 2)
			pool.Resize(1)
			held[0].Free()
			held[1].Free()
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			pool := slots.NewPool(slots.Plain(tt.size)[0])
			tt.do(pool)
			require.Equal(t, tt.woken, woken(pool))
			require.False(t, woken(pool), "signals coalesce")
		})
	}
}

func TestSignalsCoalesce(t *testing.T) {
	pool := slots.NewPool(slots.Plain(3)[0])
	var held []*slots.Slot
	for range 3 {
		slot, _ := pool.Reserve()
		slot.Fill()
		held = append(held, slot)
	}
	for _, slot := range held {
		slot.Free()
	}
	require.True(t, woken(pool))
	require.False(t, woken(pool))
}

func TestReserveRefusesUntilAShrunkPoolFits(t *testing.T) {
	pool := slots.NewPool(slots.Plain(3)[0])
	var held []*slots.Slot
	for range 3 {
		slot, _ := pool.Reserve()
		slot.Fill()
		held = append(held, slot)
	}
	pool.Resize(1)
	require.Equal(t, slots.Counts{Size: 1, Running: 3}, pool.Counts(), "nothing is taken away")
	for i, slot := range held {
		_, ok := pool.Reserve()
		require.False(t, ok, "%d freed", i)
		slot.Free()
	}
	require.Equal(t, slots.Counts{Size: 1, Open: 1}, pool.Counts())
	_, ok := pool.Reserve()
	require.True(t, ok)
}

func TestAPoolOfLessThanNothingIsEmpty(t *testing.T) {
	pool := slots.NewPool(slots.Group{Slots: -1})
	require.Equal(t, slots.Counts{}, pool.Counts())
	pool.Resize(-5)
	require.Equal(t, slots.Counts{}, pool.Counts())
	_, ok := pool.Reserve()
	require.False(t, ok)
}

// woken takes the pool's signal, if there is one.
func woken(pool *slots.Pool) bool {
	select {
	case <-pool.Freed():
		return true
	default:
		return false
	}
}
