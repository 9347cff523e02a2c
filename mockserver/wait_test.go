package mockserver_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/mockserver"
)

func TestWait(t *testing.T) {
	m := newInMemory(t, mockserver.Config{OpaqueTokens: true, KeepRuns: 2})
	_, err := m.Wait(t.Context(), "nope")
	require.ErrorIs(t, err, mockserver.ErrUnknownRun)

	m.enqueue(mockserver.Run{Plan: plan("waiting")})
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(fmt.Errorf("no patience"))
	_, err = m.Wait(ctx, "waiting")
	require.ErrorContains(t, err, "no patience")

	closed := make(chan error, 1)
	go func() {
		_, err := m.Wait(context.Background(), "waiting")
		closed <- err
	}()
	require.NoError(t, m.Close())
	require.NoError(t, m.Close(), "again")
	require.ErrorIs(t, <-closed, mockserver.ErrClosed)
}

// Regression: of a run that had ended, a closed server told its end or not, as
// chance would have it.
func TestWaitTellsTheEndOfARunAfterTheServerIsClosed(t *testing.T) {
	m := newInMemory(t, mockserver.Config{OpaqueTokens: true})
	c, id := m.claimed(mockserver.Run{Plan: plan("over")})
	c.ok("run:"+id, "run:complete", `{"reason":"success"}`)
	require.NoError(t, m.Close())
	for range 50 {
		result, err := m.Wait(t.Context(), id)
		require.NoError(t, err)
		require.Equal(t, "success", result.Reason)
	}
}

// The memory of a long benchmark stays flat.
func TestEndedRunsAreForgotten(t *testing.T) {
	m := newInMemory(t, mockserver.Config{OpaqueTokens: true, KeepRuns: 2})
	c := m.worker()
	for i := range 5 {
		id := fmt.Sprint("r", i)
		m.enqueue(mockserver.Run{Plan: plan(id)})
		_, err := m.Enqueue(mockserver.Run{Plan: plan(id)})
		require.ErrorAs(t, err, new(*mockserver.ConflictError))
		run := c.claim(`{"demand":1,"worker_name":null}`)[0]
		require.Equal(t, "ok", c.join("run:"+id, `{"token":"`+run.Token+`"}`).Status)
		c.ok("run:"+id, "run:complete", `{"reason":"success"}`)
	}
	for i := range 5 {
		_, known := m.Inspect(fmt.Sprint("r", i))
		require.Equal(t, i >= 3, known)
	}
	require.EqualValues(t, 5, m.Stats().Ended["success"])
}
