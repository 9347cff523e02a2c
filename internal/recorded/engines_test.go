package recorded

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/internal/runtest"
	"github.com/phxworker/phxworker/runner"
	"github.com/phxworker/phxworker/runner/egress"
	"github.com/phxworker/phxworker/runner/js"
	"github.com/phxworker/phxworker/runner/js/packages"
	"github.com/phxworker/phxworker/runner/openfn"
	"github.com/phxworker/phxworker/runner/openfn/adaptors"
)

// engine is one that the recordings are held against.
type engine struct {
	name string
	make func(t *testing.T) runner.Engine
	// applies says which recordings are for it.
	applies func(recordedRun) bool
	// refuses returns why the engine, as made, ends a recording before run:start, nil if it executes it.
	refuses func(*testing.T, runner.Engine, recordedRun) error
	// minimum is the share of them that must come to the same, not counting those
	// in which OpenFn's engine hangs.
	minimum float64
}

var engines = []engine{
	{
		name:    "js",
		make:    func(t *testing.T) runner.Engine { return newEmbedded(t) },
		minimum: 0.90,
		applies: func(r recordedRun) bool {
			slow := r.Name == "err-memory" || r.Name == "state-over-engine-limit" // fill the memory, in one goroutine
			return !slow || !testing.Short()
		},
		refuses: func(t *testing.T, e runner.Engine, r recordedRun) error {
			plan, err := runner.ParsePlan(r.Plan)
			if err != nil {
				return nil
			}
			execution, err := e.Prepare(t.Context(), &runner.Run{Plan: plan})
			if err == nil {
				execution.Close()
			} else if !strings.Contains(err.Error(), "this run needs the OpenFn engine") {
				return nil // the run ends for that in each engine
			}
			return err
		},
	},
	{
		name:    "openfn",
		make:    newOpenFn,
		minimum: 0.95,
		applies: func(recordedRun) bool { return true },
		refuses: func(*testing.T, runner.Engine, recordedRun) error { return nil },
	},
}

// newEmbedded returns the embedded engine, with the adaptors of npm's registry where tests are not to be short.
func newEmbedded(t *testing.T) *js.Engine {
	t.Helper()
	if testing.Short() {
		return js.New(js.Config{})
	}
	return js.New(js.Config{Packages: quiet{published(t)}, Egress: egress.New(egress.Config{Policy: egress.MustParse("any")})})
}

// quiet is for runs without a log.
type quiet struct{ *packages.Provider }

func (q quiet) Package(ctx context.Context, specifier string, _ func(string)) (*js.Package, error) {
	return q.Provider.Package(ctx, specifier, nil)
}

// published returns the adaptors of npm's registry, prepared for the embedded engine. The test is skipped without a registry.
func published(t *testing.T) *packages.Provider {
	t.Helper()
	repo, err := adaptors.Open(adaptors.Config{Dir: runtest.Adaptors(t)})
	require.NoError(t, err)
	t.Cleanup(repo.Close)
	p, err := packages.Open(packages.Config{Repo: repo})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	if _, err = p.Package(t.Context(), "@openfn/language-http@7.2.10", nil); err != nil && os.Getenv("CI") == "" {
		t.Skip("there is no registry: ", err)
	}
	require.NoError(t, err)
	return p
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
