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
	"github.com/phxworker/phxworker/runner"
	"github.com/phxworker/phxworker/runner/terms"
	"github.com/phxworker/phxworker/slots"
)

func TestWhatWasClaimedAndNotBegunIsGivenBackOnADrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := extended(t, mockserver.Config{})
		h.enqueue("manual", "a")
		h.fail(fault.Rule{Action: fault.Delay, When: fault.After, Event: "claim", Delay: 5 * time.Second})
		worker, stop := h.hire(all(Config{Groups: slots.MustParse("manual:1")}))
		settle(time.Second) // the server has given the run away, the worker does not know it yet
		require.Equal(t, "claimed", h.state("a"))
		worker.Drain()
		require.NoError(t, stop())
		require.Equal(t, "available", h.state("a"))
		require.Equal(t, "drain", h.record("a").Owners[0].ReleaseReason)
		require.Equal(t, 1, h.record("a").Attempt, "that was no attempt")
		for _, join := range h.sent("phx_join") {
			require.Equal(t, queueTopic, join.topic, "nor was it begun")
		}
	})
}

// Guards against a run that is lost because the server does not take it back as the
// worker stops.
func TestWhatIsNotTakenBackOnADrainIsExecuted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := extended(t, mockserver.Config{})
		h.enqueue("manual", "a")
		h.fail(fault.Rule{Action: fault.Delay, When: fault.After, Event: "claim", Delay: 5 * time.Second})
		h.fail(fault.Rule{Action: fault.Refuse, Event: "run:release", Response: []byte(`{"reason":"not_claimed"}`)})
		worker, stop := h.hire(all(Config{Groups: slots.MustParse("manual:1")}))
		settle(time.Second)
		worker.Drain()
		h.gate.release("a")
		require.NoError(t, stop())
		require.Equal(t, "success", h.state("a"))
		require.Len(t, h.sent("run:release"), 1)
	})
}

// Guards against a run that its own worker, which has lost it and does not know yet,
// takes from the queue and drops.
func TestARunThatComesBackToItsWorkerTooSoonIsPostponed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := extended(t, mockserver.Config{Lease: time.Minute})
		h.enqueue("manual", "a")
		h.fail(fault.Rule{Action: fault.Withhold, When: fault.Before, Event: "run:renew", Count: -1})
		let := make(chan struct{})
		var tries atomic.Int32
		worker, _ := h.hire(all(Config{Groups: slots.MustParse("manual:2"), Engine: Func(func(context.Context, *Run) (any, error) {
			if tries.Add(1) == 1 {
				<-let // whatever becomes of its context, so that the run is not over for a while
			}
			return nil, nil
		})}))
		settle(90 * time.Second)
		close(let)
		record := h.record("a")
		require.Equal(t, "success", string(record.State))
		require.Equal(t, "postpone", record.Owners[1].ReleaseReason)
		require.Equal(t, 2, record.Attempt, "the lease that was lost, and no more")
		require.Equal(t, 1, h.taken("a", "run:complete"))
		require.Equal(t, 0, worker.Stats().Groups[0].Running)
		require.Zero(t, worker.Stats().Undelivered, "the end of the first one's topic says that the run is not its own")
	})
}

// A server that takes no runs back has none claimed ahead of a slot.
func TestNothingIsClaimedAheadOnAPlainServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := plain(t)
		h.enqueue("manual", "a", "b")
		h.hire(all(Config{Groups: slots.MustParse("manual:1"), Claim: Claim{Prefetch: true}}))
		settle(time.Minute)
		require.Equal(t, "started", h.state("a"))
		require.Equal(t, "available", h.state("b"))
	})
}

// Guards against a release that is tried for ever when nobody waits for it any more.
func TestAReleaseEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := extended(t, mockserver.Config{})
		worker, _ := h.hire(all(Config{}))
		settle(time.Second)
		over, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, worker.current().queue.Release(over, terms.Release{ID: "a"}), context.Canceled)
	})
}

func TestAWorkerThatIsAbortedGivesItsRunsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := extended(t, mockserver.Config{})
		h.enqueue("manual", "a")
		worker, stop := h.hire(all(Config{Groups: slots.MustParse("manual:1")}))
		settle(time.Second)
		worker.Abort()
		require.ErrorIs(t, stop(), ErrAborted)
		require.Zero(t, h.taken("a", "run:complete"))
		require.Equal(t, "requeue", h.record("a").Owners[0].ReleaseReason)
		h.hire(all(Config{Groups: slots.MustParse("manual:1")}))
		settle(30 * time.Second)
		require.Equal(t, "started", h.state("a"))
		require.Equal(t, 2, h.record("a").Attempt)
	})
}

func TestOneRunIsClaimedAheadWithItsPlan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := extended(t, mockserver.Config{})
		h.enqueue("manual", "a", "b", "c")
		worker, stop := h.hire(all(Config{Groups: slots.MustParse("manual:1"), Claim: Claim{Prefetch: true}}))
		settle(time.Second)
		require.Equal(t, "started", h.state("a"))
		require.Equal(t, 1, h.taken("b", "fetch:plan"), "it is joined, and its plan is there")
		require.Zero(t, h.taken("b", "fetch:dataclip")+h.taken("b", "run:start"))
		require.Equal(t, "available", h.state("c"))
		require.Equal(t, uint64(1), worker.Stats().Groups[0].Prefetched)

		h.gate.release("a")
		settle(time.Second)
		require.Equal(t, "started", h.state("b"))
		require.Equal(t, "claimed", h.state("c"))
		settle(10 * time.Second)
		require.Equal(t, "prefetch", h.record("c").Owners[0].ReleaseReason, "it has waited long enough")
		h.gate.release("b")
		h.gate.release("c")
		settle(10 * time.Second)
		require.Equal(t, "success", h.state("c"))
		require.NoError(t, stop())
		require.Zero(t, worker.Stats().Delivery.Settled[runner.Unsettled])
	})
}

func TestARunAheadThatCannotGoOnFreesItsSlotAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := extended(t, mockserver.Config{})
		h.enqueue("manual", "a", "b", "c")
		worker, _ := h.hire(all(Config{Groups: slots.MustParse("manual:1"), Claim: Claim{Prefetch: true}}))
		settle(time.Second)
		require.NoError(t, h.server.Cancel("b", "not needed")) // while it has no slot
		settle(time.Second)
		require.Equal(t, "cancelled", h.state("b"))
		h.gate.release("a")
		settle(time.Second)
		require.Equal(t, "started", h.state("c"))
		require.Equal(t, 1, worker.Stats().Groups[0].Running)
	})
}

func TestAClaimMayWaitAtTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := extended(t, mockserver.Config{})
		_, stop := h.hire(all(Config{Groups: slots.MustParse("manual:1")}))
		settle(10 * time.Second)
		require.Len(t, h.sent("claim"), 1, "it waits")
		require.Contains(t, h.sent("claim")[0].payload, `"wait_ms":20000`)
		h.enqueue("manual", "a")
		settle(0)
		require.Equal(t, "started", h.state("a"), "no wake-up was needed")
		h.gate.release("a")
		settle(5 * time.Second)
		begin := time.Now()
		require.NoError(t, stop())
		require.Zero(t, time.Since(begin), "a stop ends the wait")
	})
}

// A claim that waits is an ordinary one with a field more, and a topic that crashes
// over it must not do so for ever. It crashes over the first two: the first is made with
// the first status, so that either may be the cause.
func TestACrashOverAWaitingClaimEndsWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := extended(t, mockserver.Config{})
		h.enqueue("manual", "a")
		h.fail(fault.Rule{Action: fault.Crash, When: fault.Before, Event: "claim", Count: 2})
		worker, _ := h.hire(all(Config{Groups: slots.MustParse("manual:1")}))
		settle(time.Second)
		h.gate.release("a")
		settle(time.Minute)
		claims := h.sent("claim")
		require.Greater(t, len(claims), 2)
		require.Contains(t, claims[0].payload, "wait_ms")
		for _, claim := range claims[2:] {
			require.NotContains(t, claim.payload, "wait_ms")
		}
		require.Equal(t, []string{extLongpoll}, worker.Stats().ExtensionsOff)
		require.Equal(t, "success", h.state("a"))
	})
}
