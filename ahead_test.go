package phxworker

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/mockserver"
	"github.com/phxworker/phxworker/mockserver/fault"
	"github.com/phxworker/phxworker/slots"
)

func TestAGroupThatWasMadeSmallerClaimsNoneAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := extended(t, mockserver.Config{})
		h.enqueue("manual", "a", "b", "c")
		worker, _ := h.hire(Config{Extensions: []string{"release"}, Groups: slots.MustParse("manual:3"), Claim: Claim{Prefetch: true}})
		settle(20 * time.Second)
		require.NoError(t, worker.Resize("manual", 1)) // three runs in a group of one
		h.enqueue("manual", "d")
		settle(time.Second)
		require.NoError(t, worker.Pause(""))
		require.NoError(t, worker.Resume(""))
		settle(5 * time.Second)
		require.Equal(t, "available", h.state("d"), "nothing is claimed until enough of them have ended")
	})
}

func TestARunAheadIsNeverExecutedBesideTheSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := extended(t, mockserver.Config{})
		h.enqueue("manual", "a", "b", "c", "d", "e")
		h.fail(fault.Rule{Action: fault.Refuse, Event: "run:release", Count: -1, Response: []byte(`{"reason":"busy"}`)})
		var now, most atomic.Int32
		h.hire(Config{Extensions: []string{"release"}, Groups: slots.MustParse("manual:1"), Claim: Claim{Prefetch: true}, Engine: Func(func(ctx context.Context, run *Run) (any, error) {
			most.Store(max(most.Load(), now.Add(1)))
			defer now.Add(-1)
			return h.gate.hold(ctx, run)
		})})
		settle(2 * time.Minute)
		require.EqualValues(t, 1, most.Load(), "no group is ever over its slots")
	})
}

func TestARunAheadOutlivesAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := extended(t, mockserver.Config{StatusTimeout: time.Hour})
		h.enqueue("manual", "a", "b")
		var now, most atomic.Int32
		h.hire(all(Config{Groups: slots.MustParse("manual:1"), Claim: Claim{Prefetch: true}, Engine: Func(func(ctx context.Context, run *Run) (any, error) {
			most.Store(max(most.Load(), now.Add(1)))
			defer now.Add(-1)
			return h.gate.hold(ctx, run)
		})}))
		settle(time.Second)
		h.fail(fault.Rule{Action: fault.Drop, When: fault.Before, Event: fault.Join, Count: -1})
		h.cut()
		settle(time.Minute)
		h.server.ClearFaults()
		settle(2 * time.Minute)
		require.EqualValues(t, 1, most.Load(), "no group is ever over its slots")
	})
}

func TestReturnedCountsWhatWasGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := extended(t, mockserver.Config{})
		h.enqueue("manual", "a", "b")
		worker, _ := h.hire(Config{Extensions: []string{"release"}, Groups: slots.MustParse("manual:1"), Claim: Claim{Prefetch: true}})
		settle(time.Second)
		require.NoError(t, worker.Cancel("b"))
		settle(20 * time.Second)
		require.Empty(t, h.sent("run:release"))
		require.Zero(t, worker.Stats().Groups[0].PrefetchReturned)
	})
}

func TestADrainOffersARunAheadAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := extended(t, mockserver.Config{})
		h.enqueue("manual", "a", "b")
		h.fail(fault.Rule{Action: fault.Refuse, Event: "run:release", Count: 1, Response: []byte(`{"reason":"busy"}`)})
		worker, stop := h.hire(Config{Extensions: []string{"release"}, Groups: slots.MustParse("manual:1"), Claim: Claim{Prefetch: true}})
		settle(time.Second)
		worker.Drain()
		settle(time.Minute)
		require.Equal(t, "available", h.state("b"), "it is offered again every 10 s")
		h.gate.release("a")
		_ = stop()
	})
}
