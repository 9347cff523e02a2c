package channel

import (
	"context"
	"time"

	"github.com/cenkalti/backoff/v4"
)

// steady is how long a connection or a join must have held before the next
// attempt is a first one again. A server that accepts and closes at once is
// thereby tried less and less often.
const steady = 5 * time.Second

// retries paces a series of attempts: at once, then exponentially with full
// jitter, so that clients which lost a server together come back spread out.
// It is not safe for concurrent use.
type retries struct {
	exp   *backoff.ExponentialBackOff
	first bool // the next retry is the first
}

func newRetries(cfg *Config) *retries {
	// A factor of 1 draws from zero to twice the interval, hence the halves.
	exp := backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(cfg.MinBackoff/2),
		backoff.WithMaxInterval(cfg.MaxBackoff/2),
		backoff.WithRandomizationFactor(1),
		backoff.WithMultiplier(2),
		backoff.WithMaxElapsedTime(0),
	)
	return &retries{exp: exp, first: true}
}

func (r *retries) reset() {
	r.first = true
	r.exp.Reset()
}

// spread gives the next attempt a wait of its own even if it is a first one. A
// server that says it restarts has said so to all its clients at once.
func (r *retries) spread() { r.first = false }

// wait returns when the next attempt is due, when somebody wants it now, or when ctx
// ends.
func (r *retries) wait(ctx context.Context, now <-chan struct{}) {
	if r.first {
		r.first = false
		return
	}
	timer := time.NewTimer(r.exp.NextBackOff())
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-now:
	case <-ctx.Done():
	}
}
