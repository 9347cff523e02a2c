package js

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/phxworker/phxworker/runner"
	"github.com/phxworker/phxworker/runner/compile"
	"github.com/phxworker/phxworker/runner/egress"
	"github.com/phxworker/phxworker/runner/js/vm"
)

// Config configures an [Engine]. The zero value is ready to use.
type Config struct {
	// StatePropsToRemove are the keys that are taken from the state when a
	// step ends. Defaults to "configuration" and "response".
	StatePropsToRemove []string
	// Compiler compiles the jobs and bounds what that takes; engines of one process
	// share it. Defaults to one of its own.
	Compiler *compile.Compiler
	// Packages has adaptors from npm, for plans that need more than what is built in. Nil for none.
	Packages Packages
	// MostInput is the size of an input in bytes above which [Engine.CanRun] leaves a run to another engine: with much
	// to compute, Node is the faster one. Zero for no bound.
	MostInput int64
	// Egress keeps what adaptors exchange to a policy, and counts it. Defaults to one of its own, with the
	// default policy: public and private addresses, not this machine.
	Egress *egress.Guard
}

// Engine executes plans in QuickJS. It may be used concurrently.
type Engine struct {
	cfg   Config
	steps atomic.Uint64 // executed so far; names their VMs
	// maxVisits bounds the nodes that a run visits, those without code among them.
	maxVisits int

	lacks    atomic.Pointer[string] // the package that could not be had last for a cause that passes
	compile  func() (*prelude, error)
	starting sync.Mutex
	started  *stock // nil until it is first needed; guarded by starting
}

var (
	_ runner.PartialEngine = (*Engine)(nil)
	_ runner.Checker       = (*Engine)(nil)
)

// New returns an Engine.
func New(cfg Config) *Engine {
	if cfg.StatePropsToRemove == nil {
		cfg.StatePropsToRemove = []string{"configuration", "response"}
	}
	if cfg.Compiler == nil {
		cfg.Compiler = compile.NewCompiler(0)
	}
	if cfg.Egress == nil {
		cfg.Egress = egress.New(egress.Config{})
	}
	return &Engine{cfg: cfg, maxVisits: runner.MaxVisits, compile: compilePrelude}
}

// stock compiles the prelude when it is first needed: it takes some milliseconds that
// making an engine can do without. What failed for want of memory is tried again.
func (e *Engine) stock() (*stock, error) {
	e.starting.Lock()
	defer e.starting.Unlock()
	if e.started == nil {
		compiled, err := e.compile()
		if err != nil {
			return nil, err
		}
		e.started = &stock{prelude: compiled}
		// An engine is not closed, but forgotten. Nothing of the stock refers to it.
		runtime.AddCleanup(e, (*stock).close, e.started)
	}
	return e.started, nil
}

// Check implements [runner.Checker]. It starts what a step runs in, and asks again for the package that could not be had last
// for a cause that passes.
func (e *Engine) Check(ctx context.Context) error {
	stock, err := e.stock()
	if err == nil {
		err = stock.check()
	}
	if err != nil {
		return fmt.Errorf("the js engine cannot start: %w", err)
	}
	return e.checkPackages(ctx)
}

// needs returns the packages that a run needs, nil where what is built in is enough. The error is a [*refusal] where
// the plan is not for this engine.
func (e *Engine) needs(ctx context.Context, run *runner.Run) (reals, error) {
	why, err := e.refuses(ctx, run.Plan)
	switch {
	case err != nil:
		return nil, err
	case why == nil:
		return nil, nil
	case e.cfg.Packages == nil || !why.packaged:
		return nil, why
	}
	return e.findReals(ctx, run)
}

// Prepare fails when a job of the plan needs more than what is built in and its package has.
func (e *Engine) Prepare(ctx context.Context, run *runner.Run) (runner.Execution, error) {
	packages, err := e.needs(ctx, run)
	if refused, ok := errors.AsType[*refusal](err); ok {
		return nil, refused.failure()
	}
	if err != nil {
		return nil, err
	}
	versions := runner.Versions{"engine": "js", "runtime": "quickjs " + vm.Version}
	for i := range run.Plan.Jobs {
		spec := run.Plan.Jobs[i].Adaptor
		name, version, _ := checkAdaptor(spec)
		if one := packages[spec]; one != nil {
			name, version = one.Name, one.Version
		}
		known, _ := versions[name].([]string)
		if version != "" && !slices.Contains(known, version) {
			versions[name] = append(known, version)
		}
	}
	stock, err := e.stock()
	if err != nil {
		return nil, runner.Unable(&runner.Failure{Reason: runner.Exception, Type: "EngineError", Message: "the js engine cannot start: " + err.Error()})
	}
	x := &execution{engine: e, stock: stock, prelude: stock.prelude, run: run, reals: packages}
	return runner.Prepared(versions, x.execute), nil
}

// threadID names what executes a step.
func (e *Engine) threadID() string { return "js-" + strconv.FormatUint(e.steps.Add(1), 10) }
