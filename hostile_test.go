package phxworker

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/internal/wstest"
	"github.com/phxworker/phxworker/mockserver"
	"github.com/phxworker/phxworker/mockserver/fault"
	"github.com/phxworker/phxworker/runner"
	"github.com/phxworker/phxworker/slots"
)

// against lets a worker that offers every extension live for some minutes with a
// server that says odd things, and returns it with how often it executed the run.
func against(t *testing.T, mock *lightningMock, cfg Config, takes time.Duration) (worker *Worker, executed int32) {
	t.Helper()
	mock.plan, mock.events = `{"id":"r1","jobs":[{"id":"j"}]}`, make(chan string, 100_000)
	listener := wstest.Serve(t, mock)
	var times atomic.Int32
	cfg = all(cfg)
	cfg.URL, cfg.Secret, cfg.Transport.NetDial = "ws://lightning.test/worker", "s", listener.DialContext
	cfg.Engine = Func(func(ctx context.Context, _ *Run) (any, error) {
		times.Add(1)
		select {
		case <-time.After(takes):
			return nil, nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	})
	worker, err := New(cfg)
	require.NoError(t, err)
	ctx, stop := context.WithTimeout(t.Context(), 4*time.Minute)
	defer stop()
	require.NoError(t, worker.Run(ctx))
	return worker, times.Load()
}

// Guards against heeding what was offered, and never agreed on.
func TestPushesThatWereNotAgreedOnAreCountedAndIgnored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mock := &lightningMock{runs: `{"id":"r1","token":"x.y.z"}`, pushes: []string{"run:cancel", "run:notify", "worker:drain", "bogus"}}
		worker, _ := against(t, mock, Config{}, time.Minute)
		stats := worker.Stats()
		require.Equal(t, map[Reason]int{"success": 1}, stats.Ended)
		require.Equal(t, uint64(8), stats.Delivery.Unknown+stats.Queue.Unknown)
	})
}

// An event is known by its name, and on its own topic, whatever else was agreed on.
func TestPushesThatNobodyKnowsAreCountedAndIgnored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mock := &lightningMock{
			runs: `{"id":"r1","token":"x.y.z"}`, agrees: `{"cancel":{"v":1},"notify":{"v":1},"drain":{"v":1}}`, pushes: []string{"run:bogus", "worker:bogus"},
		}
		worker, _ := against(t, mock, Config{}, time.Minute)
		stats := worker.Stats()
		require.Equal(t, map[Reason]int{"success": 1}, stats.Ended)
		require.Equal(t, uint64(2), stats.Delivery.Unknown)
		require.Equal(t, uint64(2), stats.Queue.Unknown)
	})
}

// Guards against a run that is lost over a field beside its id and token.
func TestARunIsTakenWhateverStandsBesideIt(t *testing.T) {
	for _, agrees := range []string{"", `{"lease":{"v":1},"attempt":{"v":1}}`} {
		for _, fields := range []string{
			`"attempt":"first"`, `"attempt":1e300`, `"lease_ms":"long"`, `"lease_ms":-5`, `"lease_ms":18446744073710`, `"lease_ms":9223372036854775807`,
			`"lease_ms":1200000.0`, `"attempt":null,"lease_ms":null`,
		} {
			t.Run(agrees+" "+fields, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					mock := &lightningMock{runs: `{"id":"r1","token":"x.y.z",` + fields + `}`, agrees: agrees}
					worker, executed := against(t, mock, Config{}, time.Minute)
					require.EqualValues(t, 1, executed)
					require.Equal(t, map[Reason]int{"success": 1}, worker.Stats().Ended)
				})
			})
		}
	}
	synctest.Test(t, func(t *testing.T) { // not agreed on, so not heeded
		mock := &lightningMock{runs: `{"id":"r1","token":"x.y.z","attempt":9,"lease_ms":1000}`}
		worker, _ := against(t, mock, Config{}, time.Minute)
		require.Equal(t, map[Reason]int{"success": 1}, worker.Stats().Ended)
	})
}

// Guards against terms that make a worker spin, or wait for ever.
func TestTermsAreKeptWithinBounds(t *testing.T) {
	intervals := []string{"1", "0.001", "9223372036854775807", "1e300", "-1", "0", `"15"`, "null"}
	waits := []string{"20000", "9223372036854775807", "-1"}
	if testing.Short() {
		intervals, waits = intervals[:2], waits[:1]
	}
	for _, interval := range intervals {
		for _, wait := range waits {
			t.Run(interval+" "+wait, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					mock := &lightningMock{
						runs: `{"id":"r1","token":"x.y.z"}`, agrees: `{"status":{"v":1,"interval_ms":` + interval + `},"longpoll":{"v":1,"max_wait_ms":` + wait + `}}`,
					}
					worker, _ := against(t, mock, Config{Claim: Claim{Timeout: 10 * time.Second}}, time.Second)
					require.Equal(t, map[Reason]int{"success": 1}, worker.Stats().Ended)
					require.Less(t, len(mock.events), 2600, "ten a second at most")
					for range len(mock.events) {
						e := <-mock.events
						require.NotContains(t, e, `"wait_ms":-`)
						require.NotContains(t, e, `"wait_ms":20000`, "longer than the worker would wait")
					}
				})
			})
		}
	}
}

// Guards against an operator's word that an engine undoes.
func TestACancelledRunDoesNotGoBack(t *testing.T) {
	for _, answer := range []error{ErrRequeue, Postpone(time.Second, ""), fmt.Errorf("stopped: %w", ErrRequeue)} {
		synctest.Test(t, func(t *testing.T) {
			h := extended(t, mockserver.Config{})
			h.enqueue("manual", "a")
			worker, _ := h.hire(all(Config{Groups: slots.MustParse("manual:1"), Engine: Func(func(ctx context.Context, _ *Run) (any, error) {
				<-ctx.Done()
				return nil, answer
			})}))
			settle(time.Second)
			require.NoError(t, worker.Cancel("a"))
			settle(time.Minute)
			require.Equal(t, "cancelled", h.state("a"))
		})
	}
}

func TestHooksThatNeverReturnDoNotHoldTheWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := extended(t, mockserver.Config{})
		h.enqueue("manual", "a", "b")
		let := make(chan struct{})
		worker, stop := h.hire(all(Config{Groups: slots.MustParse("manual:2"), Hooks: Hooks{Accept: func(_ context.Context, run *Run) error {
			if run.ID == "a" {
				<-let
			}
			return nil
		}}}))
		settle(time.Second)
		require.Equal(t, "started", h.state("b"))
		worker.Abort()
		require.ErrorIs(t, stop(), ErrAborted)
		require.Zero(t, worker.Stats().Groups[0].Running)
		close(let)
	})
}

// Guards against a run that was claimed ahead, could not be returned, and is
// ended with no line of it executed, or executed beside the slots.
func TestARunAheadThatCannotBeGivenBackIsExecuted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := extended(t, mockserver.Config{})
		h.enqueue("manual", "a", "b")
		h.fail(fault.Rule{Action: fault.Refuse, Event: "run:release", Response: []byte(`{"reason":"not_claimed"}`), Count: -1})
		worker, stop := h.hire(all(Config{Groups: slots.MustParse("manual:1"), Claim: Claim{Prefetch: true}}))
		settle(20 * time.Second)
		require.Equal(t, "claimed", h.state("b"))
		h.gate.release("a")
		settle(time.Second)
		require.Equal(t, "started", h.state("b"), "in the next slot")
		h.gate.release("b")
		require.NoError(t, stop())
		require.Equal(t, []string{"success", "success"}, []string{h.state("a"), h.state("b")})
		require.Zero(t, worker.Stats().Delivery.Settled[runner.Returned])
	})
}
