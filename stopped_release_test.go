package phxworker

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/mockserver"
	"github.com/phxworker/phxworker/mockserver/fault"
	"github.com/phxworker/phxworker/slots"
)

// Guards against a worker that spins for ever as it is aborted: run with -timeout, time
// in the bubble stands still meanwhile.
func TestAnAbortEndsARunAheadThatIsNotTakenBack(t *testing.T) {
	for _, away := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			h := extended(t, mockserver.Config{StatusTimeout: time.Hour})
			h.enqueue("manual", "a", "b")
			h.fail(fault.Rule{Action: fault.Refuse, Event: "run:release", Count: -1, Response: []byte(`{"reason":"busy"}`)})
			worker, stop := h.hire(Config{Extensions: []string{"release"}, Groups: slots.MustParse("manual:1"), Claim: Claim{Prefetch: true}, Engine: Func(func(ctx context.Context, _ *Run) (any, error) {
				<-ctx.Done()
				time.Sleep(time.Second)
				return nil, context.Cause(ctx)
			})})
			settle(time.Second)
			if away {
				h.fail(fault.Rule{Action: fault.Refuse, Event: fault.Connect, Count: -1})
				h.cut()
				settle(time.Second)
			}
			worker.Abort()
			require.ErrorIs(t, stop(), ErrAborted)
			require.LessOrEqual(t, len(h.sent("run:release")), 3)
			if !away {
				require.Equal(t, 1, h.taken("b", "run:complete"))
			}
		})
	}
}

// Whoever cancels a run is stronger than who would return it, also while that waits
// for a connection.
func TestARunThatIsCancelledMeanwhileDoesNotGoBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := extended(t, mockserver.Config{StatusTimeout: time.Hour})
		h.enqueue("manual", "a")
		worker, _ := h.hire(Config{Extensions: []string{"release"}, Groups: slots.MustParse("manual:1"), Hooks: Hooks{Accept: func(context.Context, *Run) error {
			h.fail(fault.Rule{Event: fault.Connect, Action: fault.Refuse, Count: -1})
			h.cut()
			time.Sleep(time.Millisecond)
			return ErrRequeue
		}}})
		settle(10 * time.Millisecond)
		require.NoError(t, worker.Cancel("a"))
		h.server.ClearFaults()
		settle(time.Minute)
		require.Equal(t, "cancelled", h.state("a"), "releases: %d", len(h.sent("run:release")))
	})
}

func TestARunAheadThatIsCancelledMeanwhileDoesNotGoBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := extended(t, mockserver.Config{StatusTimeout: time.Hour})
		h.enqueue("manual", "a", "b")
		worker, _ := h.hire(Config{Extensions: []string{"release"}, Groups: slots.MustParse("manual:1"), Claim: Claim{Prefetch: true}})
		settle(9 * time.Second)
		h.fail(fault.Rule{Event: fault.Connect, Action: fault.Refuse, Count: -1})
		h.cut()
		settle(1500 * time.Millisecond) // the release waits for the connection
		require.NoError(t, worker.Cancel("b"))
		h.server.ClearFaults()
		settle(30 * time.Second)
		require.Equal(t, "cancelled", h.state("b"), "releases: %d", len(h.sent("run:release")))
	})
}

func TestARunOfADrainIsReportedOnAnAbort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := extended(t, mockserver.Config{})
		h.enqueue("manual", "a")
		h.fail(fault.Rule{Action: fault.Delay, When: fault.After, Event: "claim", Delay: 5 * time.Second, Count: 1})
		h.fail(fault.Rule{Action: fault.Withhold, When: fault.Before, Event: "run:release", Count: -1})
		worker, stop := h.hire(Config{Groups: slots.MustParse("manual:1"), Extensions: []string{"release"}})
		settle(time.Second)
		worker.Drain()
		settle(5 * time.Second)
		require.Len(t, h.sent("run:release"), 1)
		worker.Abort()
		_ = stop()
		require.Equal(t, 1, h.taken("a", "run:complete"), "%+v", worker.Stats().Results)
	})
}

// Guards against a release that is out when the worker is aborted, and takes all the time
// for the report.
func TestAReleaseUnderWayLeavesTimeForTheReport(t *testing.T) {
	for _, name := range []string{"requeue", "prefetch", "accept"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := extended(t, mockserver.Config{})
				h.enqueue("manual", "a")
				h.fail(fault.Rule{Action: fault.Withhold, When: fault.Before, Event: "run:release", Count: -1})
				cfg := Config{Extensions: []string{"release"}, Groups: slots.MustParse("manual:1")}
				id := "a"
				switch name {
				case "requeue":
					cfg.Engine = Func(func(ctx context.Context, run *Run) (any, error) { return nil, ErrRequeue })
				case "accept":
					cfg.Hooks.Accept = func(context.Context, *Run) error { return ErrRequeue }
				case "prefetch":
					cfg.Claim.Prefetch = true
					h.enqueue("manual", "b")
					id = "b"
				}
				worker, stop := h.hire(cfg)
				settle(11 * time.Second) // a release is out
				if name != "prefetch" {
					require.Len(t, h.sent("run:release"), 1)
				}
				worker.Abort()
				_ = stop()
				require.Equal(t, 1, h.taken(id, "run:complete"), "%+v", worker.Stats().Results)
			})
		})
	}
}
