package runner

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/mockserver/fault"
)

// Guards against a word over the new owner: the lease ends between two looks at it,
// and the server has not said so.
func TestNothingIsSentOnceTheLeaseIsOver(t *testing.T) {
	onWire(t, func(t *testing.T, w *wire) { // a server that would take it
		id, token := w.claim(planOf(""))
		outcome := New(Config{Engine: Func(func(_ context.Context, run *Run) (any, error) {
			time.Sleep(leastLook - time.Millisecond)
			run.Print("late")
			return nil, nil
		})}).Run(t.Context(), t.Context(), w.socket, Claimed{ID: id, Token: token, Lease: leastLook / 2})
		require.ErrorIs(t, outcome.Err, ErrLeaseLost)
		require.Equal(t, LeaseLost, outcome.Settled)
		require.Equal(t, 1, w.pushes("r1", "run:start"))
		require.Zero(t, w.pushes("r1", "run:log")+w.pushes("r1", "run:complete"))
	})
}

// Guards against more words of a run that the server says is another worker's.
func TestAnEventThatIsRefusedForTheLeaseIsTheLast(t *testing.T) {
	onWire(t, func(t *testing.T, w *wire) {
		id, token := w.claim(planOf(""))
		w.fail(fault.Rule{Event: "step:start", Action: fault.Refuse, Response: json.RawMessage(`{"reason":"lease_lost"}`)})
		dir := t.TempDir()
		outcome := New(Config{Engine: Func(twoSteps), Spool: dir}).Run(t.Context(), t.Context(), w.socket, Claimed{ID: id, Token: token})
		require.ErrorIs(t, outcome.Err, ErrLeaseLost)
		require.Equal(t, []string{"fetch:plan", "run:start"}, w.names("r1"))
		spooled, err := ReadSpool(dir)
		require.NoError(t, err)
		require.Empty(t, spooled, "it is not ours to report later either")
	})
}

// Guards against a lease that a machine which has slept, or a process which was
// stopped, believes to have: a time with a monotonic reading is compared by that
// alone, and its clock stands still meanwhile.
func TestALeaseIsKeptInWallTime(t *testing.T) {
	require.Contains(t, time.Now().String(), "m=", "which stands for a monotonic reading")
	l := newLease(Claimed{At: time.Now(), Lease: time.Minute})
	require.NotContains(t, l.until.String(), "m=")
	l.extend(wallTime(), time.Minute)
	require.NotContains(t, l.until.String(), "m=")
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
		})}).Run(t.Context(), t.Context(), w.socket, Claimed{ID: id, Token: token, Lease: time.Minute})
		require.NoError(t, outcome.Err)
		require.Equal(t, "success", w.result("r1").Reason)
		require.Zero(t, w.pushes("r1", "run:renew"))
	})
}

func TestAJoinThatIsRefusedForTheLeaseIsNoError(t *testing.T) {
	onWire(t, func(t *testing.T, w *wire) {
		id, token := w.claim(planOf(""))
		w.fail(fault.Rule{Event: fault.Join, Run: "r1", Action: fault.Refuse, Response: json.RawMessage(`{"reason":"lease_lost"}`)})
		outcome := New(Config{Engine: Func(success)}).Run(t.Context(), t.Context(), w.socket, Claimed{ID: id, Token: token})
		require.ErrorIs(t, outcome.Err, ErrLeaseLost)
		require.Equal(t, LeaseLost, outcome.Settled)
	})
}
