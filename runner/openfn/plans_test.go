package openfn

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/internal/plans"
	"github.com/phxworker/phxworker/internal/runtest"
	"github.com/phxworker/phxworker/runner"
)

// The embedded engine has the same test.
func TestKnownPlans(t *testing.T) {
	b := newBench(t, Config{Spares: 2})
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
