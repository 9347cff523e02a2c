package flight

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

var errNobody = errors.New("nobody waits")

func TestAFlightIsShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var fs Group[int]
		begun, gate := 0, make(chan struct{})
		work := func(_ context.Context, tell func(string)) (int, error) {
			begun++
			tell("one")
			<-gate
			tell("two")
			return 7, nil
		}
		type outcome struct {
			lines []string
			n     int
			err   error
		}
		out := make(chan outcome)
		for range 3 {
			go func() {
				var o outcome
				o.n, o.err = fs.Do(t.Context(), "k", func(line string) { o.lines = append(o.lines, line) }, work)
				out <- o
			}()
			synctest.Wait() // each comes later than the first line
		}
		close(gate)
		for range 3 {
			require.Equal(t, outcome{lines: []string{"one", "two"}, n: 7}, <-out)
		}
		require.Equal(t, 1, begun)
		n, err := fs.Do(t.Context(), "k", nil, work)
		require.NoError(t, err)
		require.Equal(t, 7, n)
		require.Equal(t, 2, begun, "what is over is not kept")
	})
}

func TestAFlightGoesOnForThoseWhoStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var fs Group[int]
		gate, cancelled := make(chan struct{}), false
		work := func(ctx context.Context, _ func(string)) (int, error) {
			select {
			case <-gate:
				return 7, nil
			case <-ctx.Done():
				cancelled = true
				return 0, ctx.Err()
			}
		}
		impatient, leave := context.WithCancelCause(t.Context())
		left, stayed := make(chan error), make(chan int)
		go func() { _, err := fs.Do(impatient, "k", nil, work); left <- err }()
		synctest.Wait()
		go func() { n, _ := fs.Do(t.Context(), "k", nil, work); stayed <- n }()
		synctest.Wait()
		leave(errNobody)
		require.ErrorIs(t, <-left, errNobody)
		close(gate)
		require.Equal(t, 7, <-stayed)
		require.False(t, cancelled)
	})
}

// Guards against an install that takes longer than a run may take, and so is
// begun anew by each run.
func TestAFlightGoesOnWithoutAnybody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var fs Group[int]
		begun, gate := 0, make(chan struct{})
		work := func(ctx context.Context, _ func(string)) (int, error) {
			begun++
			select {
			case <-gate:
				return begun, nil
			case <-ctx.Done():
				return 0, context.Cause(ctx)
			}
		}
		ctx, leave := context.WithCancelCause(t.Context())
		leave(errNobody)
		_, err := fs.Do(ctx, "k", nil, work)
		require.ErrorIs(t, err, errNobody)
		go close(gate)
		n, err := fs.Do(t.Context(), "k", nil, work)
		require.NoError(t, err)
		require.Equal(t, 1, n)

		gate = make(chan struct{})
		_, err = fs.Do(ctx, "k", nil, work)
		require.ErrorIs(t, err, errNobody)
		fs.Close()
		_, err = fs.Do(t.Context(), "k", nil, work)
		require.ErrorIs(t, err, ErrClosed)
		require.Equal(t, 2, begun)
	})
}
