package runner

import (
	"context"
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/claim"
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
			done <- r.Run(t.Context(), t.Context(), w.socket, claim.Run{ID: id, Token: token}, begin)
		}()
		synctest.Wait() // its plan is there
		found, err := r.Notify(t.Context(), "r1", json.RawMessage(`{}`))
		require.True(t, found)
		require.ErrorIs(t, err, ErrNoNotices)
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
			_, err := r.Notify(ctx, "r1", json.RawMessage(`{}`))
			cancel()
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.Equal(t, time.Second, time.Since(begin))
			require.Len(t, engine.notices, 1, "after notice %d", i)
		}
		require.NoError(t, (<-done).Err)
		close(engine.let)
	})
}
