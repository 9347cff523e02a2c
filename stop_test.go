package phxworker

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/mockserver/fault"
	"github.com/phxworker/phxworker/slots"
)

func TestAbortCancelsAndReportsTheRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := openHouse(t, quiet)
		h.enqueue("manual", "m1", "m2")
		worker, stop := h.hire(Config{})
		settle(time.Second)
		ended := make(chan error, 1)
		go func() { ended <- stop() }()
		settle(10 * time.Second)
		h.gate.release("m1")
		synctest.Wait()
		begin := time.Now()
		worker.Abort()
		require.ErrorIs(t, <-ended, ErrAborted)
		require.Less(t, time.Since(begin), time.Second)
		require.Equal(t, "success", h.state("m1"))
		result, err := h.server.Wait(t.Context(), "m2")
		require.NoError(t, err)
		require.Equal(t, "cancel", result.Reason)
	})
}

func TestAbortWhileTheServerIsAwayGivesUpAfterAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := openHouse(t, quiet)
		h.enqueue("manual", "m1")
		worker, stop := h.hire(Config{Delivery: Delivery{Spool: t.TempDir()}})
		settle(time.Second)
		require.NoError(t, h.listener.Close())
		h.cut()
		settle(time.Second)
		begin := time.Now()
		worker.Abort()
		require.ErrorIs(t, stop(), ErrAborted)
		require.Less(t, time.Since(begin), 30*time.Second)
		require.Equal(t, 1, worker.Stats().Undelivered)
	})
}

func TestAbortBeforeRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := openHouse(t, quiet)
		worker, err := New(Config{URL: "ws://lightning.test/worker", Secret: "s", Transport: Transport{NetDial: h.dial}, Engine: Func(h.gate.hold)})
		require.NoError(t, err)
		worker.Abort()
		worker.Abort()
		require.NoError(t, worker.Run(t.Context()))
	})
}

// Guards against a run that is lost because its claim was answered while the
// worker was stopping.
func TestAClaimAnsweredDuringAStopIsCarriedOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := openHouse(t, quiet)
		h.enqueue("manual", "m1")
		worker, err := New(Config{
			URL: "ws://lightning.test/worker", Secret: h.server.Secret(), Transport: Transport{NetDial: h.dial},
			Engine: Func(func(context.Context, *Run) (any, error) { return map[string]bool{"done": true}, nil }),
		})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- worker.Run(ctx) }()
		// The stop falls at whatever moment of the first claim the scheduler
		// picks; in none may the run be left claimed.
		for h.server.Stats().Workers == 0 {
			time.Sleep(time.Microsecond)
		}
		cancel()
		require.NoError(t, <-ended)
		require.Contains(t, []string{"available", "success"}, h.state("m1"))
	})
}

func TestTooManyErrorsStopTheWorker(t *testing.T) {
	tests := []struct {
		name string
		rule fault.Rule
		most int
	}{
		{name: "claims that fail", rule: fault.Rule{Event: "claim"}, most: 3},
		{name: "a run that cannot be reported", rule: fault.Rule{Event: fault.Join, Run: "a"}, most: 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := openHouse(t, quiet)
				h.enqueue("manual", "a", "b")
				tt.rule.Action, tt.rule.Response, tt.rule.Count = fault.Refuse, []byte(`{"reason":"no"}`), -1
				h.fail(tt.rule)
				worker, stop := h.hire(Config{Groups: slots.MustParse("manual:1"), MaxErrors: tt.most})
				settle(10 * time.Minute)
				require.Equal(t, PhaseStopped, worker.Stats().Phase)
				require.ErrorIs(t, stop(), ErrTooManyErrors)
				require.Len(t, h.server.Faults(), tt.most)
			})
		})
	}
}

func TestBudget(t *testing.T) {
	b := newBudget(2)
	spent := func() bool {
		select {
		case <-b.spent.raised:
			return true
		default:
			return false
		}
	}
	b.count(nil)
	b.count(context.Canceled)
	b.count(nil)
	b.count(context.Canceled)
	require.False(t, spent(), "a success takes an error off")
	b.count(context.Canceled)
	require.True(t, spent())
	b.count(nil)
	b.count(context.Canceled)
	require.True(t, spent(), "for good")
}

// Guards against a stop that waits for a slot which is only held so that the server is not
// asked too often.
func TestAStopDoesNotWaitForASlotThatIsHeldForAMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := openHouse(t, quiet)
		h.fail(fault.Rule{Action: fault.Refuse, Event: fault.Join, Topic: "run:*", Response: []byte(`{"reason":"unauthorized"}`), Count: -1})
		h.enqueue("manual", "a")
		_, stop := h.hire(Config{Claim: Claim{MinBackoff: time.Minute}})
		settle(time.Second)
		begin := time.Now()
		require.NoError(t, stop())
		require.Less(t, time.Since(begin), time.Second)
	})
}

func TestStopDrainsAndThenStopsWhatRuns(t *testing.T) {
	for name, tt := range map[string]struct {
		finish []string
		want   error
	}{
		"all finish":    {finish: []string{"m1", "m2"}},
		"one goes on":   {finish: []string{"m1"}, want: ErrAborted},
		"none finishes": {want: ErrAborted},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := openHouse(t, quiet)
				h.enqueue("manual", "m1", "m2")
				worker, _ := h.hire(Config{})
				settle(time.Second)
				time.AfterFunc(5*time.Second, func() {
					for _, id := range tt.finish {
						h.gate.release(id)
					}
				})
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				begin := time.Now()
				require.ErrorIs(t, worker.Stop(ctx), tt.want)
				require.Equal(t, PhaseStopped, worker.Stats().Phase)
				require.Less(t, time.Since(begin), 11*time.Second)
				require.ErrorIs(t, worker.Stop(ctx), tt.want, "whoever asks again hears the same")
				for _, id := range []string{"m1", "m2"} {
					want := "cancelled"
					if slices.Contains(tt.finish, id) {
						want = "success"
					}
					require.Equal(t, want, h.state(id))
				}
			})
		})
	}
}

func TestAWorkerThatNeverRanCannotBeStopped(t *testing.T) {
	worker, err := New(Config{URL: "ws://lightning.test/worker", Secret: "s", Engine: Func(func(context.Context, *Run) (any, error) { return nil, nil })})
	require.NoError(t, err)
	require.ErrorIs(t, worker.Stop(t.Context()), ErrNotRunning)
}
