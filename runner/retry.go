package runner

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v4"
)

// Retry calls do until it succeeds, for handlers that use what fails at times. It waits between tries as the policy
// says; nil stands for [backoff.NewExponentialBackOff]. A policy keeps count, so each call needs its own.
//
// It gives up when the policy does, and when the next try would come after the deadline of ctx, which for a handler is
// the end of the run's time. It gives up at once when do returns a [backoff.Permanent] error, or one that already says
// what becomes of the run: a [*Failure], [ErrRequeue], [Requeue], [Postpone], [Discard], [Poison] or [Unable].
//
// The error wraps the last one of do, and tells how many tries there were. When ctx has ended, it is the cause of that.
func Retry(ctx context.Context, policy backoff.BackOff, do func(ctx context.Context) error) error {
	if policy == nil {
		policy = backoff.NewExponentialBackOff()
	}
	if end, ok := ctx.Deadline(); ok {
		policy = until{policy, end}
	}
	tries := 0
	err := backoff.Retry(func() error {
		tries++
		err := do(ctx)
		if decides(err) {
			return backoff.Permanent(err)
		}
		return err
	}, backoff.WithContext(policy, ctx))
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil && errors.Is(err, ctx.Err()):
		return context.Cause(ctx)
	}
	return fmt.Errorf("%w (tries: %d)", err, tries)
}

// until is a policy that plans nothing for later than its end.
type until struct {
	backoff.BackOff

	end time.Time
}

func (u until) NextBackOff() time.Duration {
	wait := u.BackOff.NextBackOff()
	if wait > time.Until(u.end) {
		return backoff.Stop
	}
	return wait
}
