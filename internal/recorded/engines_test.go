package recorded

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/internal/runtest"
	"github.com/phxworker/phxworker/runner"
	"github.com/phxworker/phxworker/runner/js"
	"github.com/phxworker/phxworker/runner/openfn"
)

// engine is one that the recordings are held against.
type engine struct {
	name string
	make func(t *testing.T) runner.Engine
	// applies says which recordings are for it.
	applies func(recordedRun) bool
	// refuses returns why the engine ends a recording before run:start, nil if it executes it.
	refuses func(*testing.T, recordedRun) error
	// minimum is the share of them that must come to the same, not counting those
	// in which OpenFn's engine hangs.
	minimum float64
}

var engines = []engine{
	{
		name:    "js",
		make:    func(*testing.T) runner.Engine { return js.New(js.Config{}) },
		minimum: 0.90,
		applies: func(r recordedRun) bool {
			slow := r.Name == "err-memory" || r.Name == "state-over-engine-limit" // fill the memory, in one goroutine
			return r.Category != "http" && (!slow || !testing.Short())
		},
		refuses: func(t *testing.T, r recordedRun) error {
			plan, err := runner.ParsePlan(r.Plan)
			if err != nil {
				return nil
			}
			return js.New(js.Config{}).Refuses(t.Context(), plan)
		},
	},
	{
		name:    "openfn",
		make:    newOpenFn,
		minimum: 0.95,
		applies: func(recordedRun) bool { return true },
		refuses: func(*testing.T, recordedRun) error { return nil },
	},
}

func newOpenFn(t *testing.T) runner.Engine {
	if testing.Short() {
		t.Skip("takes a minute, nearly all of it in Node; package openfn has its own tests")
	}
	runtest.Need(t, "node")
	e, err := openfn.New(openfn.Config{RepoDir: runtest.Adaptors(t), Spares: 2})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, e.Close()) })
	return e
}

func engineNamed(t *testing.T, name string) engine {
	t.Helper()
	for _, e := range engines {
		if e.name == name {
			return e
		}
	}
	t.Fatalf("docs/compatibility.md speaks of an engine %q", name)
	return engine{}
}
