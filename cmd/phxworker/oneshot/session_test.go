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
