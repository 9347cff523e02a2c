package phxworker_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker"
	"github.com/phxworker/phxworker/mockserver"
	"github.com/phxworker/phxworker/mockserver/fault"
	"github.com/phxworker/phxworker/runner/terms"
	"github.com/phxworker/phxworker/slots"
)

func TestALeaseIsRenewedForAsLongAsARunTakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := extended(t, mockserver.Config{Lease: time.Minute})
		h.enqueue("manual", "a")
		worker, _ := h.hire(all(phxworker.Config{Groups: slots.MustParse("manual:1")}))
		settle(230 * time.Second)
		h.gate.release("a")
		settle(time.Second)
		record := h.record("a")
		require.Equal(t, "success", string(record.State))
		require.Len(t, record.Owners, 1)
		require.Equal(t, 5, record.Owners[0].Renewals, "each time when a third of a minute is left")
		require.Equal(t, uint64(5), worker.Stats().Delivery.Renewed)
		require.Zero(t, h.server.Stats().Extended.LeasesExpired)
	})
}

func TestARefusedRenewalEndsTheRunWithoutAWord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := extended(t, mockserver.Config{Lease: time.Minute})
		h.enqueue("manual", "a")
		h.fail(fault.Rule{Action: fault.Refuse, Event: "run:renew", Response: json.RawMessage(`{"reason":"lease_lost"}`)})
		var events *phxworker.Subscription
		worker, _ := h.hireWith(all(phxworker.Config{Groups: slots.MustParse("manual:1"), MaxErrors: 1}), func(w *phxworker.Worker) { events = w.Subscribe(100) })
		settle(50 * time.Second)
		require.Equal(t, phxworker.PhaseRunning, worker.Stats().Phase, "that is no error")
		require.Zero(t, h.taken("a", "run:complete"))
		require.Equal(t, uint64(1), worker.Stats().Delivery.LeasesLost)
		require.Zero(t, worker.Stats().Undelivered, "nothing was to be told")
		for e := range events.Events() {
			if e.Kind == phxworker.EventLeaseLost {
				require.ErrorIs(t, e.Result.Err, terms.ErrLeaseLost)
				break
			}
		}
		require.Equal(t, 0, worker.Stats().Groups[0].Running, "its slot is free")
	})
}

// Guards against a worker that was frozen, or away, and reports over the new owner
// when it comes back.
func TestAWorkerThatWasAwayForTooLongReportsNothing(t *testing.T) {
	for _, comesBack := range []bool{true, false} {
		t.Run(fmt.Sprint("comes back: ", comesBack), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := extended(t, mockserver.Config{Lease: time.Minute, StatusTimeout: time.Hour})
				h.enqueue("manual", "a")
				var effects atomic.Int32
				first, stopFirst := h.hire(all(phxworker.Config{Groups: slots.MustParse("manual:1"), Name: "first", Engine: phxworker.Func(func(ctx context.Context, _ *phxworker.Run) (any, error) {
					select {
					case <-h.gate.of("first"):
						effects.Add(1)
						return "first", nil
					case <-ctx.Done():
						return nil, context.Cause(ctx)
					}
				})}))
				settle(time.Second)
				require.Equal(t, "first", h.record("a").WorkerName)
				h.fail(fault.Rule{Action: fault.Drop, When: fault.Before, Event: fault.Join, Worker: h.record("a").Owners[0].Worker, Count: -1})
				h.cut()
				h.hire(all(phxworker.Config{Groups: slots.MustParse("manual:1"), Name: "second", Engine: phxworker.Func(func(context.Context, *phxworker.Run) (any, error) {
					effects.Add(1)
					return "second", nil
				})}))
				settle(90 * time.Second)
				if comesBack {
					h.server.ClearFaults()
					settle(2 * time.Minute)
				}
				h.gate.release("first")
				settle(time.Minute)
				record := h.record("a")
				require.Equal(t, "success", string(record.State))
				require.Len(t, record.Owners, 2)
				require.Equal(t, "second", record.Owners[1].WorkerName)
				require.JSONEq(t, `{"value":"second"}`, string(record.FinalState))
				require.Equal(t, 1, h.taken("a", "run:complete"))
				require.EqualValues(t, 1, effects.Load(), "the first one was stopped when its lease was over")
				require.Equal(t, uint64(1), first.Stats().Delivery.LeasesLost)
				require.NoError(t, stopFirst())
			})
		})
	}
}

func TestARunWhoseTopicIsNotJoinedGoesToAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := extended(t, mockserver.Config{ClaimAck: 20 * time.Second})
		h.enqueue("manual", "a")
		h.fail(fault.Rule{Action: fault.Withhold, When: fault.After, Event: "claim"}) // its reply never comes
		h.hire(phxworker.Config{Groups: slots.MustParse("manual:1"), Name: "deaf", Extensions: []string{"claim_ack"}})
		settle(time.Second)
		h.hire(phxworker.Config{Groups: slots.MustParse("manual:1"), Name: "other", Extensions: []string{"claim_ack"}})
		settle(40 * time.Second)
		require.Equal(t, "started", h.state("a"))
		require.Equal(t, "other", h.record("a").WorkerName)
		require.Equal(t, int64(1), h.server.Stats().Extended.AcksMissed)
	})
}

// Guards against a worker that stops renewing what the server goes on leasing: its runs
// would be taken from it, and given to it again, until they are poisoned.
func TestACrashOverARenewalTakesNoRunAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := extended(t, mockserver.Config{Lease: time.Minute})
		h.enqueue("manual", "a")
		h.fail(fault.Rule{Action: fault.Crash, When: fault.Before, Event: "run:renew", Count: 1})
		var executed atomic.Int32
		h.hire(all(phxworker.Config{Groups: slots.MustParse("manual:3"), MaxAttempts: -1, Engine: phxworker.Func(func(ctx context.Context, run *phxworker.Run) (any, error) {
			executed.Add(1)
			return h.gate.hold(ctx, run)
		})}))
		settle(30 * time.Second)
		h.enqueue("manual", "c")
		settle(20 * time.Second) // the first renewal, of a, has crashed
		h.enqueue("manual", "b")
		settle(10 * time.Minute)
		for _, id := range []string{"a", "b", "c"} {
			require.Equal(t, 1, h.record(id).Attempt, id)
		}
		require.EqualValues(t, 3, executed.Load())
	})
}

// deaf takes no notice until its run is over.
type deaf struct{ phxworker.Func }

func (d deaf) Prepare(ctx context.Context, run *phxworker.Run) (phxworker.Execution, error) {
	execution, err := d.Func.Prepare(ctx, run)
	return listening{execution, func(ctx context.Context, _ json.RawMessage) { <-ctx.Done() }}, err
}

// Guards against a delay that does not grow, for a number that does not count what it is
// said to.
func TestWhichAttemptARunIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := extended(t, mockserver.Config{})
		h.enqueue("manual", "a")
		var attempts []int
		refused := false
		accept := func(context.Context, *phxworker.Run) error {
			if refused {
				return nil
			}
			refused = true
			return phxworker.Requeue(10*time.Minute, "not here")
		}
		h.hire(all(phxworker.Config{Groups: slots.MustParse("manual:1"), Hooks: phxworker.Hooks{Accept: accept}, Engine: phxworker.Func(func(_ context.Context, run *phxworker.Run) (any, error) {
			switch attempts = append(attempts, run.Attempt); len(attempts) {
			case 1, 3:
				return nil, phxworker.Postpone(time.Hour, "it is night")
			case 2, 4:
				return nil, phxworker.Requeue(time.Minute<<run.Attempt, "the register is down")
			}
			return nil, nil
		})}))
		settle(3 * time.Hour)
		require.Equal(t, "success", h.state("a"))
		require.Equal(t, []int{1, 1, 2, 2, 3}, attempts)
		var delays []time.Duration
		for _, release := range h.sent("run:release") {
			var told terms.Release
			require.NoError(t, json.Unmarshal([]byte(release.payload), &told))
			delays = append(delays, time.Duration(told.DelayMS)*time.Millisecond)
		}
		require.Equal(t, []time.Duration{10 * time.Minute, time.Hour, 2 * time.Minute, time.Hour, 4 * time.Minute}, delays)
		require.Equal(t, 3, h.record("a").Attempt)
	})
}
