package phxworker

import (
	"context"
	"log/slog"

	"github.com/phxworker/phxworker/channel"
	"github.com/phxworker/phxworker/claim"
	"github.com/phxworker/phxworker/runner/terms"
)

// What the tests, which use the package from outside, must see of its inside.

var (
	NewBudget    = newBudget
	SocketParams = socketParams
)

const MaxRunID = maxRunID

func (b *budget) Count(err error) { b.count(err) }

func (b *budget) Spent() bool {
	select {
	case <-b.spent.raised:
		return true
	default:
		return false
	}
}

// ReadClaimReply reads the reply to a claim that asked for one run.
func ReadClaimReply(log *slog.Logger, response []byte) ([]claim.Run, error) {
	return (&queue{log: log}).read(channel.Reply{Response: response}, nil, 1)
}

// TripKey has the worker claim nothing, as if its key did not fit.
func (w *Worker) TripKey(cause error) {
	turnstile := w.current().turnstile
	turnstile.trip(&turnstile.key, cause)
}

// ReleaseRun returns a run to the queue.
func (w *Worker) ReleaseRun(ctx context.Context, r terms.Release) error {
	return w.current().queue.Release(ctx, r)
}

// Seats returns how many topics the first socket carries or is to carry, and how many of them
// are joined.
func (w *Worker) Seats() (topics, joined int) {
	sockets := w.current().sockets
	sockets.mu.Lock()
	defer sockets.mu.Unlock()
	return sockets.carry[0].topics, sockets.carry[0].joined
}
