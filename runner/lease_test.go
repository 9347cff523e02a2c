package runner

import (
	"context"
	"encoding/json"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/claim"
	"github.com/phxworker/phxworker/mockserver/fault"
)

// Guards against a word over the new owner: the lease ends between two looks at it,
// and the server has not said so.
func TestNothingIsSentOnceTheLeaseIsOver(t *testing.T) {
	onWire(t, func(t *testing.T, w *wire) { // a server that would take it
		id, token := w.claim(planOf(""))
		topic, err := w.socket.Join(t.Context(), "run:"+id, joinPayload{token: token})
		require.NoError(t, err)
		claimed := claim.Run{ID: id, Token: token, Claimed: time.Now(), Lease: time.Minute}
		box := newOutbox(topic, slog.New(slog.DiscardHandler), 0, newPatience(token, claimed.Claimed, time.Minute, nil), new(tally))
		box.lease = newLease(claimed)
		_, err = box.deliver(t.Context(), &runStart{at: time.Now()}, new(tries))
		require.NoError(t, err)
		time.Sleep(time.Minute)
		_, err = box.deliver(t.Context(), &runComplete{at: time.Now()}, new(tries))
		require.ErrorIs(t, err, ErrLeaseLost)
		require.Equal(t, []int{1, 0}, []int{w.pushes("r1", "run:start"), w.pushes("r1", "run:complete")})
	})
}

// Guards against more words of a run that the server says is another worker's.
func TestAnEventThatIsRefusedForTheLeaseIsTheLast(t *testing.T) {
	onWire(t, func(t *testing.T, w *wire) {
		id, token := w.claim(planOf(""))
		w.fail(fault.Rule{Event: "step:start", Action: fault.Refuse, Response: json.RawMessage(`{"reason":"lease_lost"}`)})
		dir := t.TempDir()
		outcome := New(Config{Engine: Func(twoSteps), Spool: dir}).Run(t.Context(), t.Context(), w.socket, claim.Run{ID: id, Token: token}, nil)
		require.ErrorIs(t, outcome.Err, ErrLeaseLost)
		require.Equal(t, []string{"fetch:plan", "run:start"}, w.names("r1"))
		spooled, err := readSpool(dir)
		require.NoError(t, err)
		require.Empty(t, spooled, "it is not ours to report later either")
	})
}

// A lease is compared by both of its readings: the wall clock goes on while the machine
// sleeps, the monotonic one is never set back. No fake clock has two that differ.
func TestALeaseHasBothReadings(t *testing.T) {
	require.Contains(t, time.Now().String(), "m=", "which stands for a monotonic reading")
	l := newLease(claim.Run{Claimed: time.Now(), Lease: time.Minute})
	require.Contains(t, l.until.String(), "m=")
	l.extend(time.Now(), time.Minute)
	require.Contains(t, l.until.String(), "m=")
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
		require.ErrorIs(t, outcome.Err, ErrLeaseLost)
		require.Equal(t, LeaseLost, outcome.Settled)
	})
}
