package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/phxworker/phxworker/cmd/phxworker/options"
	"github.com/phxworker/phxworker/cmd/phxworker/web"
	"github.com/phxworker/phxworker/internal/fence"
	"github.com/phxworker/phxworker/runner"
	"github.com/phxworker/phxworker/runner/command"
	"github.com/phxworker/phxworker/runner/command/cgroup"
	"github.com/phxworker/phxworker/runner/compile"
	"github.com/phxworker/phxworker/runner/egress"
	"github.com/phxworker/phxworker/runner/js"
	"github.com/phxworker/phxworker/runner/js/packages"
	"github.com/phxworker/phxworker/runner/openfn"
	"github.com/phxworker/phxworker/runner/openfn/adaptors"
)

// maxSpares bounds the processes that are kept ready: each takes some 50 MB.
const maxSpares = 4

// engine is what executes the runs, and what else a program wants of it.
type engine struct {
	runs      runner.Engine
	processes func() int // how many it has; nil if it never has any
	// fences tries those around its processes, once, and returns what was found; knownFences
	// returns it without waiting, nil until it is known. Both are nil if it has no processes of ours.
	fences, knownFences func() []fence.State
	// port is where the worker listens, 0 for nowhere yet; nil if the engine has no use for it.
	port *atomic.Int64
	// egress is what jobs of the embedded engine have exchanged; nil if there is none.
	egress func() egress.Stats
	end    func() error
}

// newEngine makes the engine that the options ask for.
func newEngine(ctx context.Context, o options.Engine, limits runner.Limits, log *slog.Logger) (engine, error) {
	compiler := compile.NewCompiler(o.CompileMemory)
	port := new(atomic.Int64)
	guard := egress.New(egress.Config{Policy: o.Egress, Limits: egress.Limits{RunBytes: o.EgressBytes}, OwnPort: func() int { return int(port.Load()) }})
	spares := min(runtime.NumCPU(), maxSpares)
	groups := openGroups(o, cgroup.Open, log)
	if o.Name == "command" {
		return newCommand(ctx, o, command.Config{Args: o.Command, Cgroups: groups, Spares: spares, Runs: o.Reuse, Logger: log})
	}
	dir, err := repoDir(o.RepoDir)
	if err != nil && (o.Name != "js" || o.RepoDir != "") {
		return engine{}, err
	}
	if o.Name == "js" {
		embedded, end, err := newEmbedded(o, dir, nil, compiler, guard, log)
		return engine{runs: embedded, port: port, egress: guard.Stats, end: end}, err
	}
	fences, knownFences := once(func() []fence.State { return fence.Probe(ctx) })
	if o.RequireFences {
		if err := fence.Require(fences()); err != nil && ctx.Err() == nil {
			return engine{}, &usageError{"--require-fences: " + err.Error()}
		}
	}
	node, err := openfn.New(openfn.Config{
		RequireFences: o.RequireFences, OwnPort: func() int { return int(port.Load()) },
		RepoDir: dir, MonorepoDir: o.MonorepoDir,
		MemoryMB: limits.MemoryMB, Cgroups: groups, Spares: spares, Reuse: o.Reuse,
		StatePropsToRemove: o.StateProps,
		Optional:           o.Name == "auto",
		Compiler:           compiler,
		CollectionsURL:     o.CollectionsURL, CollectionsVersion: o.CollectionsVersion,
		Logger: log,
	})
	if err != nil { // it has looked at folders alone
		return engine{}, &usageError{err.Error()}
	}
	if o.Name == "openfn" {
		if err := openfn.CheckNode(ctx); err != nil {
			return engine{}, errors.Join(&usageError{fmt.Sprintf("--engine openfn: %v; or use --engine js", err)}, node.Close())
		}
		tellFences(ctx, fences(), log)
		return engine{runs: node, processes: node.Processes, fences: fences, knownFences: knownFences, port: port, end: node.Close}, nil
	}
	embedded, endEmbedded, err := newEmbedded(o, dir, node.Repo(), compiler, guard, log)
	if err != nil {
		return engine{}, errors.Join(err, node.Close())
	}
	var checking sync.WaitGroup
	checking.Go(func() { tellFences(ctx, fences(), log) })
	checking.Go(func() { // nobody shall wait until Node has started
		if err := openfn.CheckNode(ctx); err != nil && ctx.Err() == nil {
			log.Warn("runs that need the OpenFn engine end as an exception", "engine", o.Name, "error", err)
		}
	})
	end := func() error {
		checking.Wait()
		return errors.Join(endEmbedded(), node.Close()) // the embedded engine uses the repo of the other
	}
	return engine{runs: runner.Either(embedded, node), processes: node.Processes, fences: fences, knownFences: knownFences, port: port, egress: guard.Stats, end: end}, nil
}

// newEmbedded makes the embedded engine, with the adaptors from npm that are for it, kept in a folder; without one, with what is
// built in alone. A repo that is given is used, so that both engines know the same of tags. What it has opened, end closes.
func newEmbedded(o options.Engine, dir string, repo *adaptors.Repo, compiler *compile.Compiler, guard *egress.Guard, log *slog.Logger) (e *js.Engine, end func() error, err error) {
	if dir == "" {
		log.Warn("runs have no adaptors but what is built in: the user has no cache folder; name a folder with --repo-dir", "engine", o.Name)
		return js.New(js.Config{StatePropsToRemove: o.StateProps, Compiler: compiler, Egress: guard}), func() error { return nil }, nil
	}
	done := func() {}
	if repo == nil {
		if repo, err = adaptors.Open(adaptors.Config{Dir: dir, Monorepo: o.MonorepoDir, Logger: log}); err != nil {
			return nil, nil, &usageError{err.Error()}
		}
		done = repo.Close
	}
	provider, err := packages.Open(packages.Config{Repo: repo, Logger: log})
	if err != nil {
		done()
		return nil, nil, err
	}
	e = js.New(js.Config{StatePropsToRemove: o.StateProps, Compiler: compiler, Packages: provider, MostInput: o.EmbeddedInput, Egress: guard})
	return e, func() error {
		err := provider.Close()
		done()
		return err
	}, nil
}

// once returns a function that finds something out once, and one that returns what it found, nil
// until then: nobody who asks for the status shall wait.
func once(find func() []fence.State) (found, known func() []fence.State) {
	var states atomic.Pointer[[]fence.State]
	found = sync.OnceValue(func() []fence.State {
		s := find()
		states.Store(&s)
		return s
	})
	return found, func() []fence.State {
		if s := states.Load(); s != nil {
			return *s
		}
		return nil
	}
}

// shownFences are those that are known, as the status shows them.
func (e engine) shownFences() (shown []web.Fence) {
	if e.knownFences != nil {
		for _, state := range e.knownFences() {
			shown = append(shown, web.Fence(state))
		}
	}
	return shown
}

// listening tells the engine where the worker listens: jobs do not get there.
func (e engine) listening(at net.Addr) {
	if tcp, ok := at.(*net.TCPAddr); ok && e.port != nil {
		e.port.Store(int64(tcp.Port))
	}
}

// tellFences logs which of the kernel's fences stand around the processes of an engine.
func tellFences(ctx context.Context, states []fence.State, log *slog.Logger) {
	down := fence.Down(states)
	if ctx.Err() != nil { // then it is not known
		return
	}
	if len(down) == 0 {
		log.Info("fences are up around the processes of the engine", "fences", strings.Join(fence.Names(), ","))
		return
	}
	log.Warn("jobs are less fenced in than they could be", "reason", fence.Require(states))
}

// newCommand makes an engine of a program, and sees whether it answers: a worker
// whose engine does not would take runs only to lose them.
func newCommand(ctx context.Context, o options.Engine, cfg command.Config) (engine, error) {
	program, err := command.New(cfg)
	if err != nil {
		return engine{}, &usageError{fmt.Sprintf("--engine %q: %v", o.String(), err)}
	}
	err = check(ctx, program, o)
	if err != nil || ctx.Err() != nil {
		err = errors.Join(err, program.Close())
	}
	switch {
	case ctx.Err() != nil:
		return engine{}, context.Cause(ctx)
	case err != nil: // not a usageError: it may pass, as when what the program waits for is not up yet
		return engine{}, fmt.Errorf("--engine %q: %w", o.String(), err)
	}
	return engine{runs: program, processes: program.Processes, end: program.Close}, nil
}

// betweenChecks is how long a program that does not answer is left alone.
const betweenChecks = 200 * time.Millisecond

// check waits until the engine answers, as long and as often as the options say.
func check(ctx context.Context, program *command.Engine, o options.Engine) error {
	slow := fmt.Errorf("it has not answered in %v, %d times: see that it sends its first message when it starts, or set --engine-validation-timeout-ms", o.CheckTimeout, 1+o.CheckRetries)
	tries := backoff.WithMaxRetries(backoff.NewConstantBackOff(betweenChecks), uint64(o.CheckRetries)) //nolint:gosec // not negative
	return backoff.Retry(func() error {
		try, cancel := context.WithTimeoutCause(ctx, o.CheckTimeout, slow)
		defer cancel()
		return program.Check(try)
	}, backoff.WithContext(tries, ctx))
}

// repoDir is where adaptors are installed unless the options say otherwise.
func repoDir(set string) (string, error) {
	if info, err := os.Stat(set); set != "" && (errors.Is(err, syscall.ENOTDIR) || err == nil && !info.IsDir()) {
		return "", &usageError{fmt.Sprintf("--repo-dir %q is not a folder: name one that is there or can be made", set)}
	}
	if set != "" {
		return filepath.Abs(set)
	}
	dir, err := options.DefaultRepoDir()
	if err != nil {
		return "", &usageError{"there is no folder for adaptors: set --repo-dir or WORKER_REPO_DIR"}
	}
	return dir, nil
}
