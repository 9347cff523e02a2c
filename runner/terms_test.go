package runner

import (
	"context"
	"encoding/json"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/claim"
	"github.com/phxworker/phxworker/mockserver/fault"
	"github.com/phxworker/phxworker/runner/delivery"
	"github.com/phxworker/phxworker/runner/terms"
)

// told is an engine that takes notices, for as long as the test likes.
type told struct {
	Func

	notices chan string
	let     chan struct{}
}

func (e told) Prepare(ctx context.Context, run *Run) (Execution, error) {
	execution, err := e.Func.Prepare(ctx, run)
	return listening{execution, func(notice json.RawMessage) {
		e.notices <- string(notice)
		<-e.let
	}}, err
}

// listening is an execution that takes notices.
type listening struct {
	Execution

	notify func(notice json.RawMessage)
}

var _ Notifiable = listening{}

func (l listening) Notify(_ context.Context, notice json.RawMessage) { l.notify(notice) }

// Guards against a notice that reaches an engine which does not have the run yet, or
// one that takes none.
func TestARunTakesNoNoticesUnlessItIsExecuted(t *testing.T) {
	onWire(t, func(t *testing.T, w *wire) {
		engine := told{Func: success, notices: make(chan string, 9)}
		begin, done := make(chan error), make(chan Outcome)
		id, token := w.claim(planOf(""))
		r := New(Config{Engine: engine})
		go func() {
			done <- r.Run(t.Context(), t.Context(), w.socket, claim.Run{ID: id, Token: token}, early{begin: begin})
		}()
		synctest.Wait() // its plan is there
		require.ErrorIs(t, r.Notify(t.Context(), "r1", json.RawMessage(`{}`)), ErrNoNotices)
		require.Empty(t, engine.notices)
		begin <- nil
		require.NoError(t, (<-done).Err)
	})
}

// Guards against somebody who waits for an engine that takes its time with the
// notice before.
func TestANoticeIsWaitedForAsLongAsItsSenderLikes(t *testing.T) {
	onWire(t, func(t *testing.T, w *wire) {
		engine := told{notices: make(chan string, 9), let: make(chan struct{}), Func: func(context.Context, *Run) (any, error) {
			time.Sleep(time.Minute)
			return nil, nil
		}}
		id, token := w.claim(planOf(""))
		r := New(Config{Engine: engine})
		done := make(chan Outcome)
		go func() { done <- r.Run(t.Context(), t.Context(), w.socket, claim.Run{ID: id, Token: token}, nil) }()
		synctest.Wait()
		for i := range 2 { // the first is taken and not done with, the second not even taken
			begin := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			err := r.Notify(ctx, "r1", json.RawMessage(`{}`))
			cancel()
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.Equal(t, time.Second, time.Since(begin))
			require.Len(t, engine.notices, 1, "after notice %d", i)
		}
		require.NoError(t, (<-done).Err)
		close(engine.let)
	})
}

// Guards against notices that nobody hands over any more, and against somebody who waits for one in vain: the engine has ended
// the goroutine of the one before.
func TestAnEngineThatEndsItsGoroutineOverANoticeHearsTheNext(t *testing.T) {
	onWire(t, func(t *testing.T, w *wire) {
		heard := 0
		run := &Run{phase: Executing, noticing: make(chan struct{}, 1), notices: listening{notify: func(json.RawMessage) {
			heard++
			runtime.Goexit()
		}}}
		r := New(Config{Engine: Func(success)})
		r.active["r1"] = run
		for range 2 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			require.NoError(t, r.Notify(ctx, "r1", json.RawMessage(`{}`)))
			cancel()
		}
		alive := false
		go func() { // as the server's notices are handed over, see terms.Terms.Listen
			for range 2 {
				_ = run.notify(t.Context(), nil)
			}
			alive = true
		}()
		synctest.Wait()
		require.True(t, alive)
		require.Equal(t, 4, heard)
	})
}

// Guards against more words of a run that the server says is another worker's.
func TestAnEventThatIsRefusedForTheLeaseIsTheLast(t *testing.T) {
	onWire(t, func(t *testing.T, w *wire) {
		id, token := w.claim(planOf(""))
		w.fail(fault.Rule{Event: "step:start", Action: fault.Refuse, Response: json.RawMessage(`{"reason":"lease_lost"}`)})
		dir := t.TempDir()
		outcome := New(Config{Engine: Func(twoSteps), Delivery: delivery.Config{Spool: dir}}).Run(t.Context(), t.Context(), w.socket, claim.Run{ID: id, Token: token}, nil)
		require.ErrorIs(t, outcome.Err, terms.ErrLeaseLost)
		require.Equal(t, []string{"fetch:plan", "run:start"}, w.names("r1"))
		spooled, err := readSpool(dir)
		require.NoError(t, err)
		require.Empty(t, spooled, "it is not ours to report later either")
	})
}

// Guards against a run that is stopped because a server which leases runs does not
// renew them: nobody else may ever get it.
func TestALeaseThatCannotBeRenewedIsNone(t *testing.T) {
	onWire(t, func(t *testing.T, w *wire) { // a server that knows no leases
		id, token := w.claim(planOf(""))
		outcome := New(Config{Engine: Func(func(ctx context.Context, _ *Run) (any, error) {
			select {
			case <-time.After(4 * time.Minute):
				return nil, nil
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		})}).Run(t.Context(), t.Context(), w.socket, claim.Run{ID: id, Token: token, Lease: time.Minute}, nil)
		require.NoError(t, outcome.Err)
		require.Equal(t, "success", w.result("r1").Reason)
		require.Zero(t, w.pushes("r1", "run:renew"))
	})
}

func TestAJoinThatIsRefusedForTheLeaseIsNoError(t *testing.T) {
	onWire(t, func(t *testing.T, w *wire) {
		id, token := w.claim(planOf(""))
		w.fail(fault.Rule{Event: fault.Join, Run: "r1", Action: fault.Refuse, Response: json.RawMessage(`{"reason":"lease_lost"}`)})
		outcome := New(Config{Engine: Func(success)}).Run(t.Context(), t.Context(), w.socket, claim.Run{ID: id, Token: token}, nil)
		require.ErrorIs(t, outcome.Err, terms.ErrLeaseLost)
		require.Equal(t, LeaseLost, outcome.Settled)
	})
}

// Guards against a word over the new owner: the lease ends between two looks at it,
// and the server has not said so.
func TestNothingIsSentOnceTheLeaseIsOver(t *testing.T) {
	onWire(t, func(t *testing.T, w *wire) { // a server that would take it
		given := claim.Run{Claimed: time.Now(), Lease: time.Minute}
		box, topic := w.outbox(given, terms.NewLease(given))
		box.Start(nil)
		ended := make(chan error)
		go func() { ended <- box.Deliver(t.Context(), topic) }()
		time.Sleep(time.Minute)
		box.Complete(delivery.End{Reason: Success})
		require.ErrorIs(t, <-ended, terms.ErrLeaseLost)
		require.Equal(t, []int{1, 0}, []int{w.pushes("r1", "run:start"), w.pushes("r1", "run:complete")})
	})
}
