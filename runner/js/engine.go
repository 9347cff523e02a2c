package js

import (
	"context"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"modernc.org/quickjs"

	"github.com/phxworker/phxworker/runner"
)

// Config configures an [Engine]. The zero value is ready to use.
type Config struct {
	// StatePropsToRemove are the keys that are taken from the state when a
	// step ends. Defaults to "configuration" and "response".
	StatePropsToRemove []string
	// Logger defaults to one that discards. It gets what concerns the worker;
	// what concerns a run goes to that run's log.
	Logger *slog.Logger
}

// Engine executes plans in QuickJS. It may be used concurrently.
type Engine struct {
	cfg     Config
	prelude func() (*prelude, error)
	steps   atomic.Uint64 // executed so far; names their VMs
}

var _ runner.Preparer = (*Engine)(nil)

// New returns an Engine.
func New(cfg Config) *Engine {
	if cfg.StatePropsToRemove == nil {
		cfg.StatePropsToRemove = []string{"configuration", "response"}
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	// It takes some milliseconds that a worker's start can do without.
	return &Engine{cfg: cfg, prelude: sync.OnceValues(compilePrelude)}
}

// Prepare fails when a job of the plan needs an adaptor that the engine does not
// have.
func (e *Engine) Prepare(_ context.Context, run *runner.Run) (runner.Versions, error) {
	versions := runner.Versions{"engine": "js", "runtime": "quickjs " + quickjs.Version()}
	for i := range run.Plan.Jobs {
		spec := run.Plan.Jobs[i].Adaptor
		if spec == "" {
			continue
		}
		name, version, err := checkAdaptor(spec)
		if err != nil {
			return nil, err
		}
		if version == "" {
			continue
		}
		known, _ := versions[name].([]string)
		if !slices.Contains(known, version) {
			versions[name] = append(known, version)
		}
	}
	run.AnnounceLimits()
	return versions, nil
}

// Execute executes the plan of a run; see [runner.Engine].
func (e *Engine) Execute(ctx context.Context, run *runner.Run) (runner.Result, error) {
	run.AnnounceVersions()
	prelude, err := e.prelude()
	if err != nil {
		e.cfg.Logger.Error("the js engine cannot start", "error", err)
		return runner.Result{}, &runner.Failure{Reason: runner.Exception, Type: "EngineError", Message: err.Error()}
	}
	x := &execution{engine: e, prelude: prelude, run: run}
	return x.execute(ctx)
}

// threadID names what executes a step.
func (e *Engine) threadID() string { return "js-" + strconv.FormatUint(e.steps.Add(1), 10) }
