package oneshot

import (
	"context"
	"encoding/json"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/phxworker/phxworker"
	"github.com/phxworker/phxworker/mockserver"
	"github.com/phxworker/phxworker/runner"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Guards against a queue whose tokens end before the run may: its time would be cut to theirs.
func TestARunHasTheTimeThatItIsGiven(t *testing.T) {
	for name, limit := range map[string]time.Duration{"given": time.Hour, "the default": 0} {
		t.Run(name, func(t *testing.T) {
			engine := phxworker.Func(func(ctx context.Context, run *phxworker.Run) (any, error) {
				end, _ := ctx.Deadline()
				return time.Until(end) > run.Limits.RunTimeout-time.Minute, nil
			})
			session, err := Open(engine, phxworker.Limits{RunTimeout: limit}, slog.New(slog.DiscardHandler))
			require.NoError(t, err)
			defer session.Close()
			plan := json.RawMessage(`{"id":"r","jobs":[]}`)
			record, err := session.Execute(t.Context(), Run{ID: "r", Plan: plan}, func(mockserver.Event) {})
			require.NoError(t, err)
			require.Equal(t, "success", record.Reason)
			require.JSONEq(t, `{"value":true}`, string(record.FinalState))
		})
	}
}

// Guards against a person who mends what the engine misses, and waits for the worker to try it.
func TestARunDoesNotWaitForTheOneThatTheEngineWasNotAbleToExecute(t *testing.T) {
	able := false
	session, err := Open(phxworker.Func(func(context.Context, *phxworker.Run) (any, error) {
		if !able {
			return nil, runner.Unable(&phxworker.Failure{Reason: runner.Exception, Type: "EngineError", Message: "no disk"})
		}
		return nil, nil
	}), phxworker.Limits{}, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	defer session.Close()
	for _, want := range []string{"exception", "success"} {
		ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second) // a worker in production tries again after 5 s
		record, err := session.Execute(ctx, Run{ID: want, Plan: json.RawMessage(`{"id":"` + want + `","jobs":[]}`)}, func(mockserver.Event) {})
		cancel()
		require.NoError(t, err)
		require.Equal(t, want, record.Reason)
		able = true
	}
}
