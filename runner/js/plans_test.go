package js

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/internal/plans"
	"github.com/phxworker/phxworker/internal/runtest"
	"github.com/phxworker/phxworker/mockserver"
	"github.com/phxworker/phxworker/runner"
)

// Whatever the plan, the run has one end, with a reason that Lightning knows, and each of its steps
// has one, too.
func FuzzPlans(f *testing.F) {
	for _, seed := range []string{
		"", "\x03\x00\x00\x00\x00\x00\x01\x01\x00\x03\x00\x02\x02\x00\x04\x00\x00\x04\x00\x01\x00\x01\x00\x00", "\x06abcdefghijklmnopqrstuvwxyz0123456789",
		"\x02\x09\x09\x00\x00\x01\x02\x0a\x0a\x00\x03\x01\x07\x01\x02\x0c\x00\x09\x0a\x05\x01\x09\x00\x00", "\x01\x00\x00\x00\x00\x01\x05\x01\x0a",
	} {
		f.Add([]byte(seed))
	}
	b := runtest.New(f, New(Config{}))
	f.Fuzz(func(t *testing.T, bytes []byte) {
		b.T = t
		if b.Enqueue(mockserver.Run{Plan: plans.Random(runtest.NewID(), bytes)}) != nil {
			return
		}
		began := time.Now()
		record, outcome := b.Next(t.Context(), runner.Limits{RunTimeout: 2 * time.Second, MemoryMB: 32, JobLogLevel: "none"})
		require.Less(t, time.Since(began), 10*time.Second)
		require.NoError(t, outcome.Err)
		require.Contains(t, []string{"success", "fail", "crash", "cancel", "kill", "exception"}, record.Reason)
		require.NotContains(t, []string{"Panic", "WorkerError", "EngineError"}, record.ErrorType, record.ErrorMessage)
		runtest.RequireBalance(t, record)
	})
}

func TestKnownPlans(t *testing.T) {
	b := runtest.New(t, New(Config{}))
	for _, known := range plans.Known {
		t.Run(known.Name, func(t *testing.T) {
			b.T = t
			record := b.Run(t.Context(), runner.Limits{}, runtest.Renamed(known.Plan))
			require.Equal(t, known.Reason, record.Reason, record.ErrorMessage)
			require.Equal(t, known.Steps, runtest.Steps(t, record))
			runtest.RequireBalance(t, record)
		})
	}
}
