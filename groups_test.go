package phxworker_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker"
	"github.com/phxworker/phxworker/mockserver"
	"github.com/phxworker/phxworker/mockserver/fault"
	"github.com/phxworker/phxworker/slots"
)

// quiet is a server that never wakes anybody within a test's time, and whose
// tokens cost nothing.
var quiet = mockserver.Config{WakeDebounce: 24 * time.Hour, OpaqueTokens: true}

// twoGroups has no wildcard, so that it is certain which group takes a run.
const twoGroups = "fast_lane:1 manual:2"

func TestTheJoinCarriesCapacityAndQueues(t *testing.T) {
	for groups, payload := range map[string]string{
		"fast_lane:1 manual>*:4":          `{"capacity":5,"queues":{"fast_lane":1,"manual>*":4}`,
		"fast_lane:1 manual,*:4":          `{"capacity":5,"queues":{"fast_lane":1,"manual>*":4}`,
		"manual>*:1 default:2 manual,*:3": `{"capacity":6,"queues":{"default":2,"manual>*":4}`,
	} {
		synctest.Test(t, func(t *testing.T) {
			h := openHouse(t, quiet)
			h.hire(phxworker.Config{Groups: slots.MustParse(groups)})
			settle(time.Second)
			joins := h.sent("phx_join")
			require.Len(t, joins, 1)
			require.Equal(t, "worker:queue", joins[0].topic)
			require.JSONEq(t, payload+offered(), joins[0].payload)
		})
	}
}

func TestEachClaimCarriesItsGroupsQueues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := openHouse(t, quiet)
		h.hire(phxworker.Config{Groups: slots.MustParse("fast_lane:1 manual>*:2")})
		settle(0)
		var payloads []string
		for _, claim := range h.sent("claim") {
			payloads = append(payloads, claim.payload)
		}
		require.ElementsMatch(t, []string{
			`{"demand":1,"worker_name":null,"queues":["fast_lane"]}`,
			`{"demand":1,"worker_name":null,"queues":["manual","*"]}`,
		}, payloads)
	})
}

func TestTheClaimNamesTheWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := openHouse(t, quiet)
		h.hire(phxworker.Config{Name: "pod-7", Claim: phxworker.Claim{DemandAll: true}})
		settle(0)
		claims := h.sent("claim")
		require.Len(t, claims, 1)
		require.JSONEq(t, `{"demand":3,"worker_name":"pod-7","queues":["manual","*"]}`, claims[0].payload, "the engine has executed nothing yet")
		h.enqueue("manual", "a")
		settle(5 * time.Second)
		require.JSONEq(t, `{"demand":4,"worker_name":"pod-7","queues":["manual","*"]}`, h.sent("claim")[3].payload)
	})
}

func TestAFullGroupStopsAndTheOtherGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := openHouse(t, quiet)
		h.enqueue("fast_lane", "f1", "f2")
		h.hire(phxworker.Config{Groups: slots.MustParse(twoGroups)})
		settle(time.Minute)
		require.Equal(t, "started", h.state("f1"))
		require.Equal(t, "available", h.state("f2"), "its one slot is taken")
		require.Len(t, h.claimsOf("fast_lane"), 1)
		require.Greater(t, len(h.claimsOf("manual")), 5)
	})
}

func TestAFinishedRunResumesItsOwnGroupOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := openHouse(t, quiet)
		h.enqueue("fast_lane", "f1")
		h.enqueue("manual", "m1", "m2")
		h.hire(phxworker.Config{Groups: slots.MustParse(twoGroups)})
		settle(30 * time.Second)
		fast, manual := len(h.claimsOf("fast_lane")), len(h.claimsOf("manual"))
		require.Equal(t, []int{1, 2}, []int{fast, manual}, "both groups are full")

		h.gate.release("f1")
		settle(0)
		require.Equal(t, "success", h.state("f1"))
		require.Len(t, h.claimsOf("fast_lane"), fast+1)
		require.Len(t, h.claimsOf("manual"), manual)

		h.gate.release("m1")
		settle(0)
		require.Len(t, h.claimsOf("fast_lane"), fast+1)
		require.Len(t, h.claimsOf("manual"), manual+1)
	})
}

func TestWorkAvailableWakesEveryGroupWithAFreeSlotAndNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := openHouse(t, quiet)
		h.enqueue("fast_lane", "f1")
		h.hire(phxworker.Config{Groups: slots.MustParse("fast_lane:1 manual:2 default:1"), Claim: phxworker.Claim{MinBackoff: time.Hour, MaxBackoff: time.Hour}})
		settle(time.Second)
		fast, manual, other := len(h.claimsOf("fast_lane")), len(h.claimsOf("manual")), len(h.claimsOf("default"))
		require.Equal(t, []int{1, 1, 1}, []int{fast, manual, other}, "f1 fills fast_lane, the others wait")

		h.enqueue("manual", "m1")
		h.server.Wake()
		settle(time.Second)
		require.Equal(t, "started", h.state("m1"))
		require.Len(t, h.claimsOf("fast_lane"), fast, "a full group must not claim")
		require.Len(t, h.claimsOf("manual"), manual+2, "once for the run, once more while a slot is free")
		require.Len(t, h.claimsOf("default"), other+1)
	})
}

// Guards against the first of the traps: pending claims must count.
func TestAStormOfWakeUpsNeverOverfillsAGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := openHouse(t, quiet)
		worker, _ := h.hire(phxworker.Config{Groups: slots.MustParse("manual>*:3"), Claim: phxworker.Claim{DemandAll: true}})
		settle(time.Second)
		ids := []string{"m1", "m2", "m3", "m4", "m5", "m6", "m7", "m8"}
		h.enqueue("manual", ids...)
		for range 50 {
			h.server.Wake()
		}
		settle(time.Minute)
		counts := worker.Stats().Groups[0].Counts
		require.Equal(t, 3, counts.Running)
		require.Zero(t, counts.Open+counts.Claimed)
		require.Equal(t, 5, h.server.Stats().Available, "what the worker has no slot for stays with the server")
	})
}

func TestAGroupBacksOffAloneWhileAnotherWorks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := openHouse(t, quiet)
		var ids []string
		for _, n := range "abcdefghijklmnopqrst" {
			ids = append(ids, "m-"+string(n))
		}
		h.enqueue("manual", ids...)
		h.hire(phxworker.Config{Groups: slots.MustParse(twoGroups)})
		for _, id := range ids { // one run a second keeps its group busy
			settle(time.Second)
			h.gate.release(id)
		}
		settle(time.Second)
		require.GreaterOrEqual(t, len(h.claimsOf("manual")), len(ids))
		fast := h.claimsOf("fast_lane")
		for i := 1; i < len(fast); i++ {
			require.GreaterOrEqual(t, fast[i].Sub(fast[i-1]), time.Second, "the runs of the other group must not reset the back-off of this one")
		}
		require.Less(t, len(fast), 16)
	})
}

func TestOneGroupIsAPlainCapacity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := openHouse(t, quiet)
		h.enqueue("default", "d1", "d2", "d3", "d4")
		h.enqueue("manual", "m1", "m2", "m3")
		h.hire(phxworker.Config{Groups: slots.MustParse("manual>*:5")})
		settle(time.Minute)
		for _, id := range []string{"m1", "m2", "m3", "d1", "d2"} {
			require.Equal(t, "started", h.state(id), "manual is preferred, then the order of insertion: %s", id)
		}
		require.Equal(t, 2, h.server.Stats().Available)
		h.gate.release("d1")
		settle(0)
		require.Equal(t, "started", h.state("d3"))
	})
}

func TestARunKeepsItsGroupForLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := openHouse(t, quiet)
		h.enqueue("fast_lane", "f1")
		worker, _ := h.hire(phxworker.Config{Groups: slots.MustParse(twoGroups)})
		settle(time.Second)
		running := func() []int {
			stats := worker.Stats()
			return []int{stats.Groups[0].Running, stats.Groups[1].Running}
		}
		require.Equal(t, []int{1, 0}, running())
		h.cut()
		settle(time.Minute)
		require.Equal(t, []int{1, 0}, running(), "over a reconnect too")
		h.gate.release("f1")
		settle(time.Second)
		require.Equal(t, []int{0, 0}, running())
		require.Equal(t, "success", h.state("f1"))
	})
}

// Groups that are alike are one to whoever names them: no slot is left over.
func TestAResizeOfGroupsThatAreAlikeIsThatOfTheirSum(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := openHouse(t, quiet)
		h.enqueue("manual", "m1", "m2", "m3", "m4")
		h.enqueue("fast_lane", "f1", "f2")
		worker, _ := h.hire(phxworker.Config{Groups: slots.MustParse("manual:2 fast_lane:1 manual:2"), Claim: phxworker.Claim{Manual: true}})
		settle(time.Second)
		require.NoError(t, worker.Resize("manual", 1))
		require.NoError(t, worker.Resume(""))
		settle(time.Minute)
		require.Equal(t, 2, h.server.Stats().Started, "one each")
		require.NoError(t, worker.Resize("manual", 3))
		settle(time.Minute)
		require.Equal(t, 4, h.server.Stats().Started)
	})
}

func TestAGroupThatWasMadeSmallerClaimsNoneAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := extended(t, mockserver.Config{})
		h.enqueue("manual", "a", "b", "c")
		worker, _ := h.hire(phxworker.Config{Extensions: []string{"release"}, Groups: slots.MustParse("manual:3"), Claim: phxworker.Claim{Prefetch: true}})
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
		h.hire(phxworker.Config{Extensions: []string{"release"}, Groups: slots.MustParse("manual:1"), Claim: phxworker.Claim{Prefetch: true}, Engine: phxworker.Func(func(ctx context.Context, run *phxworker.Run) (any, error) {
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
		h.hire(all(phxworker.Config{Groups: slots.MustParse("manual:1"), Claim: phxworker.Claim{Prefetch: true}, Engine: phxworker.Func(func(ctx context.Context, run *phxworker.Run) (any, error) {
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
		worker, _ := h.hire(phxworker.Config{Extensions: []string{"release"}, Groups: slots.MustParse("manual:1"), Claim: phxworker.Claim{Prefetch: true}})
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
		worker, stop := h.hire(phxworker.Config{Extensions: []string{"release"}, Groups: slots.MustParse("manual:1"), Claim: phxworker.Claim{Prefetch: true}})
		settle(time.Second)
		worker.Drain()
		settle(time.Minute)
		require.Equal(t, "available", h.state("b"), "it is offered again every 10 s")
		h.gate.release("a")
		_ = stop()
	})
}
