package phxworker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
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

// extended is a server that knows every extension, in a bubble.
func extended(t *testing.T, cfg mockserver.Config) *house {
	t.Helper()
	cfg.Mode, cfg.OpaqueTokens, cfg.WakeDebounce = mockserver.Extended, true, 24*time.Hour
	return openHouse(t, cfg)
}

// plain is a server that knows no extension, whatever the tests' default is.
func plain(t *testing.T) *house {
	t.Helper()
	cfg := quiet
	cfg.Mode = mockserver.Lightning
	return openHouse(t, cfg)
}

// all is a configuration that offers every extension.
func all(cfg Config) Config {
	cfg.Extensions = []string{AllExtensions}
	return cfg
}

func (h *house) record(id string) mockserver.RunRecord {
	h.t.Helper()
	record, ok := h.server.Inspect(id)
	require.True(h.t, ok)
	return record
}

func TestALeaseIsRenewedForAsLongAsARunTakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := extended(t, mockserver.Config{Lease: time.Minute})
		h.enqueue("manual", "a")
		worker, _ := h.hire(all(Config{Groups: slots.MustParse("manual:1")}))
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

// Nothing but the offer reaches a server that knows no extensions.
func TestAPlainServerSeesNoExtraFrame(t *testing.T) {
	frames := func(t *testing.T, extensions []string) (events []string) {
		synctest.Test(t, func(t *testing.T) {
			h := plain(t)
			h.enqueue("manual", "a", "b")
			_, stop := h.hire(Config{Groups: slots.MustParse("manual:1"), Extensions: extensions, Claim: Claim{Prefetch: true}, Hooks: Hooks{Accept: runner.AcceptAdaptors("@openfn/language-http")}})
			settle(time.Minute)
			h.cut()
			settle(time.Minute)
			h.gate.release("a")
			settle(time.Minute)
			h.gate.release("b")
			require.NoError(t, stop())
			for _, event := range everyEvent(h) {
				events = append(events, event.topic+" "+event.payload)
			}
		})
		return events
	}
	without, offering := frames(t, []string{}), frames(t, []string{AllExtensions})
	require.Len(t, offering, len(without))
	require.NotEmpty(t, without)
}

// everyEvent returns what the workers sent, but for the control topic.
func everyEvent(h *house) (sent []sentFrame) {
	for _, event := range []string{"phx_join", "phx_leave", "claim", "fetch:plan", "run:start", "run:log", "run:complete", "run:renew", "run:release", "worker:status"} {
		sent = append(sent, h.sent(event)...)
	}
	return sent
}

func TestARefusedRenewalEndsTheRunWithoutAWord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := extended(t, mockserver.Config{Lease: time.Minute})
		h.enqueue("manual", "a")
		h.fail(fault.Rule{Action: fault.Refuse, Event: "run:renew", Response: json.RawMessage(`{"reason":"lease_lost"}`)})
		var events *Subscription
		worker, _ := h.hireWith(all(Config{Groups: slots.MustParse("manual:1"), MaxErrors: 1}), func(w *Worker) { events = w.Subscribe(100) })
		settle(50 * time.Second)
		require.Equal(t, PhaseRunning, worker.Stats().Phase, "that is no error")
		require.Zero(t, h.taken("a", "run:complete"))
		require.Equal(t, uint64(1), worker.Stats().Delivery.LeasesLost)
		require.Zero(t, worker.Stats().Undelivered, "nothing was to be told")
		for e := range events.Events() {
			if e.Kind == EventLeaseLost {
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
				first, stopFirst := h.hire(all(Config{Groups: slots.MustParse("manual:1"), Name: "first", Engine: Func(func(ctx context.Context, _ *Run) (any, error) {
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
				h.hire(all(Config{Groups: slots.MustParse("manual:1"), Name: "second", Engine: Func(func(context.Context, *Run) (any, error) {
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

func TestAHandlersWishesAreSettledOnce(t *testing.T) {
	tests := []struct {
		name    string
		err     error
		state   string        // after the first time
		settled Settlement    // by the worker
		back    time.Duration // when the run is there again; 0: never
		byPlain string        // what a server that takes no runs back is told
	}{
		{name: "requeue", err: fmt.Errorf("the mill is closed: %w", ErrRequeue), settled: runner.Requeued, back: 3 * time.Second, byPlain: "exception Requeued"},
		{name: "postpone", err: Postpone(time.Minute, ""), settled: runner.Postponed, back: time.Minute, byPlain: "exception Postponed"},
		{name: "discard", err: Discard("not ours"), settled: runner.Discarded, state: "exception", byPlain: "exception Discarded"},
		{name: "poison", err: Poison("kills workers"), settled: runner.Poisonous, state: "exception", byPlain: "exception Poisonous"},
		{name: "an error", err: errors.New("no stock"), settled: runner.Processed, state: "failed", byPlain: "fail JobError"},
		{name: "a success", settled: runner.Processed, state: "success", byPlain: "success "},
	}
	for _, tt := range tests {
		first := func(times *atomic.Int32) Engine {
			return Func(func(context.Context, *Run) (any, error) {
				if times.Add(1) == 1 {
					return nil, tt.err
				}
				return nil, nil
			})
		}
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := extended(t, mockserver.Config{})
				h.enqueue("manual", "a")
				var times atomic.Int32
				worker, _ := h.hire(all(Config{Groups: slots.MustParse("manual:1"), Engine: first(&times)}))
				settle(time.Second)
				require.Equal(t, uint64(1), worker.Stats().Delivery.Settled[tt.settled])
				if tt.back == 0 {
					require.Equal(t, tt.state, h.state("a"))
					settle(10 * time.Minute)
					require.EqualValues(t, 1, times.Load())
					require.Equal(t, 1, h.taken("a", "run:complete"))
					return
				}
				require.Equal(t, "available", h.state("a"))
				require.Zero(t, h.taken("a", "run:complete"))
				settle(tt.back - 2*time.Second)
				require.EqualValues(t, 1, times.Load())
				settle(25 * time.Second)
				require.EqualValues(t, 2, times.Load())
				require.Equal(t, "success", h.state("a"))
				require.Equal(t, 1, h.taken("a", "run:complete"))
				require.Equal(t, uint64(1), worker.Stats().Delivery.Settled[runner.Processed])
				wantAttempt := 1
				if tt.settled == runner.Requeued {
					wantAttempt = 2
				}
				require.Equal(t, wantAttempt, h.record("a").Attempt)
			})
		})
		t.Run(tt.name+", plain server", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := plain(t)
				h.enqueue("manual", "a")
				var times atomic.Int32
				h.hire(all(Config{Groups: slots.MustParse("manual:1"), Engine: first(&times)}))
				settle(10 * time.Minute)
				record := h.record("a")
				require.Equal(t, tt.byPlain, record.Reason+" "+record.ErrorType)
				require.EqualValues(t, 1, times.Load())
			})
		})
	}
}
