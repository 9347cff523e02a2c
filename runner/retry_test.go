package runner

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/stretchr/testify/require"
)

func TestRetry(t *testing.T) {
	flaky, stopped := errors.New("503"), errors.New("stopped by its operator")
	failure := &Failure{Reason: Crash, Type: "Refused", Message: "no such order"}
	every := func(d time.Duration) backoff.BackOff { return backoff.NewConstantBackOff(d) }
	tests := []struct {
		name   string
		policy backoff.BackOff
		do     func(try int) error
		tries  int
		took   time.Duration
		is     error
		says   string
	}{
		{name: "it succeeds", policy: every(time.Second), tries: 3, took: 2 * time.Second, do: func(try int) error {
			if try < 3 {
				return flaky
			}
			return nil
		}},
		{name: "the policy gives up", policy: backoff.WithMaxRetries(every(time.Second), 2), do: func(int) error { return flaky }, tries: 3, took: 2 * time.Second, is: flaky, says: "503 (tries: 3)"},
		{name: "the next try would come too late", policy: every(4 * time.Second), do: func(int) error { return flaky }, tries: 3, took: 8 * time.Second, is: flaky, says: "503 (tries: 3)"},
		{name: "a permanent error", policy: every(time.Second), do: func(int) error { return backoff.Permanent(flaky) }, tries: 1, is: flaky, says: "503 (tries: 1)"},
		{name: "a failure", policy: every(time.Second), do: func(int) error { return failure }, tries: 1, is: failure, says: failure.Error() + " (tries: 1)"},
		{name: "for later", policy: every(time.Second), do: func(int) error { return fmt.Errorf("closed: %w", ErrRequeue) }, tries: 1, is: ErrRequeue, says: "closed: the run is to be requeued (tries: 1)"},
		{name: "its context ends", policy: every(9800 * time.Millisecond), do: func(int) error { return flaky }, tries: 1, took: 9500 * time.Millisecond, is: stopped, says: stopped.Error()},
		{name: "what it does ends with its context", policy: every(time.Second), do: func(int) error {
			time.Sleep(9600 * time.Millisecond)
			return context.Canceled
		}, tries: 1, took: 9600 * time.Millisecond, is: stopped, says: stopped.Error()},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				ctx, stop := context.WithCancelCause(ctx)
				time.AfterFunc(9500*time.Millisecond, func() { stop(stopped) })
				begin, tries := time.Now(), 0
				err := Retry(ctx, tt.policy, func(context.Context) error {
					tries++
					return tt.do(tries)
				})
				require.Equal(t, []any{tt.tries, tt.took}, []any{tries, time.Since(begin)})
				require.ErrorIs(t, err, tt.is)
				if tt.is != nil {
					require.EqualError(t, err, tt.says)
				}
			})
		})
	}
}

// Guards against a handler that is told that a service is down, and would be tried for an hour.
func TestARunThatRetriesEndsInItsTime(t *testing.T) {
	onWire(t, func(t *testing.T, w *wire) {
		w.run(Config{Engine: Func(func(ctx context.Context, _ *Run) (any, error) {
			return nil, Retry(ctx, nil, func(context.Context) error { return errors.New("503") })
		})}, planOf(`,"options":{"run_timeout_ms":60000}`))
		require.Equal(t, []string{"fail", "JobError"}, []string{w.result("r1").Reason, w.result("r1").ErrorType})
		require.Regexp(t, `^503 \(tries: \d+\)$`, w.result("r1").ErrorMessage)
	})
}
