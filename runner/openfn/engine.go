package openfn

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/phxworker/phxworker/runner"
	"github.com/phxworker/phxworker/runner/command"
	"github.com/phxworker/phxworker/runner/command/cgroup"
	"github.com/phxworker/phxworker/runner/compile"
	"github.com/phxworker/phxworker/runner/openfn/adaptors"
)

// Config configures an [Engine].
type Config struct {
	// RepoDir is where adaptors and the runtime are installed. Required.
	RepoDir string
	// MonorepoDir is where adaptors of version "local" are loaded from.
	MonorepoDir string
	// LatestFor is how long a version that "latest" stood for is good.
	// Defaults to 5 min.
	LatestFor time.Duration
	// MemoryMB is the heap limit of the processes: the limit of runs whose plan
	// has none. Defaults to 500. A run whose plan has a larger one gets a process
	// of its own with that, which is not kept ready.
	MemoryMB float64
	// TempMB is how much a run may keep in its temporary folder, in MB of 2^20 bytes. A file
	// that would be larger cannot be written; a folder that holds more ends the run as a
	// Kill of type DiskError. Defaults to 1024.
	TempMB int
	// Cgroups is where each process gets a group of its own; see [command.Config.Cgroups].
	Cgroups *cgroup.Parent
	// Spares is how many processes are kept ready once there was a run.
	// Defaults to none.
	Spares int
	// Reuse is how many runs a process executes, all of them of one project.
	// Defaults to one: only then does no run see what another left behind.
	Reuse int
	// RequireFences keeps the engine from executing anything where the kernel does not have
	// all fences. Without it, those that there are stand; see docs/security.md.
	RequireFences bool
	// OwnPort returns the port at which the worker itself listens, 0 for none. Jobs cannot connect
	// to it at an address of this machine. It is called for each run. Defaults to none.
	OwnPort func() int
	// Optional is for an engine beside another one: where there is no Node, none with the fences that
	// are required, that is no fault of the worker, and the runs that need this
	// engine end for it.
	Optional bool
	// StatePropsToRemove are the keys that are taken from the state when a
	// step ends. Defaults to "configuration" and "response".
	StatePropsToRemove []string
	// Compiler compiles the jobs and bounds what that takes; engines of one process
	// share it. Defaults to one of its own.
	Compiler *compile.Compiler
	// CollectionsURL is Lightning's collections API. With it, a job that
	// speaks of collections gets their adaptor, in CollectionsVersion, which
	// defaults to latest, and the run's token.
	CollectionsURL, CollectionsVersion string
	// Logger defaults to one that discards. It gets what concerns the worker;
	// what concerns a run goes to that run's log.
	Logger *slog.Logger
}

func (c Config) withDefaults() Config {
	if c.MemoryMB == 0 {
		c.MemoryMB = runner.Limits{}.WithDefaults().MemoryMB
	}
	if c.TempMB <= 0 {
		c.TempMB = defaultTempMB
	}
	if c.StatePropsToRemove == nil {
		c.StatePropsToRemove = []string{"configuration", "response"}
	}
	if c.Compiler == nil {
		c.Compiler = compile.NewCompiler(0)
	}
	if c.OwnPort == nil {
		c.OwnPort = func() int { return 0 }
	}
	if c.CollectionsVersion == "" {
		c.CollectionsVersion = "latest"
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// defaultTempMB is far more than a run should need; what it is for is a disk that all
// runs share.
const defaultTempMB = 1024

// Engine executes plans in Node. It may be used concurrently.
type Engine struct {
	cfg  Config
	repo *adaptors.Repo

	health health

	fences  atomic.Bool          // all were found to be up
	opening sync.Mutex           // held while the host is made, which asks node what it is
	host    atomic.Pointer[host] // nil before the first run
}

// loaded is what a run is executed with.
type loaded struct {
	host     *host
	packages packagesByJob
}

var (
	_ runner.Engine  = (*Engine)(nil)
	_ runner.Checker = (*Engine)(nil)
)

// New returns an Engine. It touches no disk and starts no process before the
// first run; [Engine.Close] ends what there is.
func New(cfg Config) (*Engine, error) {
	cfg = cfg.withDefaults()
	if cfg.MonorepoDir != "" { // Node's permissions are for real paths
		dir, err := filepath.Abs(cfg.MonorepoDir)
		if err == nil {
			dir, err = filepath.EvalSymlinks(dir)
		}
		if err != nil {
			return nil, fmt.Errorf("openfn: the folder of local adaptors: %w", err)
		}
		cfg.MonorepoDir = dir
	}
	repo, err := adaptors.Open(adaptors.Config{Dir: cfg.RepoDir, Monorepo: cfg.MonorepoDir, LatestFor: cfg.LatestFor, Flags: V8Flags(cfg.MemoryMB), Logger: cfg.Logger})
	if err != nil {
		return nil, err
	}
	return &Engine{cfg: cfg, repo: repo}, nil
}

// Repo returns the folder of adaptors, which Close closes. Another engine may take them from there, too.
func (e *Engine) Repo() *adaptors.Repo { return e.repo }

// Close ends the processes that are kept ready, and installs. No run may be under way, and
// none may come.
func (e *Engine) Close() error {
	e.repo.Close()
	e.opening.Lock()
	defer e.opening.Unlock()
	if host := e.host.Load(); host != nil {
		return host.close()
	}
	return nil
}

// Processes returns how many processes of Node there are for runs: with one,
// kept ready, or on their way to either, until they have exited. What looks into packages is none
// of them. It never waits.
func (e *Engine) Processes() int {
	if host := e.host.Load(); host != nil {
		return host.processes()
	}
	return 0
}

// Prepare installs what the run needs and is not there yet.
func (e *Engine) Prepare(ctx context.Context, run *runner.Run) (runner.Execution, error) {
	progress := func(line string) { run.Log(runner.TextLine("info", "RTE", line)) }
	l, err := e.load(ctx, run.Plan, progress)
	if ctx.Err() != nil { // then an error is one of what was killed for that
		return nil, context.Cause(ctx)
	}
	if err != nil {
		return nil, err
	}
	l.host.warm(ctx, l.packages)
	versions := runner.Versions{"engine": "openfn", "node": l.host.node.Version, "runtime": l.host.runtime.Version, "compiler": "phxworker"}
	l.packages.addTo(versions)
	return runner.Prepared(versions, func(ctx context.Context) (runner.Result, error) { return e.execute(ctx, run, l) }), nil
}

// execute executes the plan of a run.
func (e *Engine) execute(ctx context.Context, run *runner.Run, l loaded) (runner.Result, error) {
	say := func(level, text string) { run.Log(runner.TextLine(level, "R/T", text)) }
	say("info", "Compiling all workflow steps...")
	begin := time.Now()
	plan, batch, err := planFor(ctx, e.cfg.Compiler, run, l.packages)
	if err != nil {
		return runner.Result{}, err
	}
	defer batch.Close()
	if slices.ContainsFunc(run.Plan.Jobs, e.usesCollections) {
		plan.Workflow.Credentials = map[string]string{"collections_token": run.Token(), "collections_endpoint": e.cfg.CollectionsURL}
	}
	say("success", "Workflow compilation complete in "+time.Since(begin).Round(time.Millisecond).String())
	req := command.Request{
		Run: hostRun{
			Plan: plan, Input: run.Input,
			Options: hostOptions{
				JobLogLevel:        run.Limits.JobLogLevel,
				StatePropsToRemove: e.cfg.StatePropsToRemove, StateLimitMB: run.Limits.StateLimitMB(), PayloadMB: max(run.Limits.PayloadMB, 0),
				Room:    memberRoom(run.Limits),
				OwnPort: e.cfg.OwnPort(),
				Meta:    run.Meta(begin),
			},
		},
		Owner:    run.Plan.Owner(),
		MaxLine:  memberRoom(run.Limits) + 4<<20,
		Modules:  l.packages.entries(),
		MemoryMB: residentMB(run.Limits.MemoryMB),
		LimitMB:  run.Limits.MemoryMB,
	}
	result, err := l.host.execute(ctx, run, req)
	if errors.Is(err, command.ErrUnstarted) && ctx.Err() == nil && l.host.mend(ctx) {
		return l.host.execute(ctx, run, req)
	}
	return result, err
}

// memberRoom is how much one member of a message of the host's may have, in bytes: what is
// larger than a state or a line that the server takes would only fill the worker's memory.
func memberRoom(limits runner.Limits) int {
	return int(min((max(limits.PayloadMB, 0)+max(limits.LogPayloadMB, 0))*(1<<20), 56<<20)) + 4<<20
}

// residentMB is how much the memory of a process may grow under a limit, which is
// one on what the job holds: V8 leaves garbage lie, and has needs of its own.
func residentMB(limit float64) int { return int(limit*1.25) + 64 }

// load returns what a plan is executed with, and installs what is missing.
func (e *Engine) load(ctx context.Context, plan *runner.Plan, progress func(string)) (loaded, error) {
	if e.host.Load() == nil { // without Node, nothing that would be installed is of use
		if err := CheckNode(ctx); err != nil {
			return loaded{}, e.failure(&nodeError{err})
		}
	}
	var l loaded
	var both sync.WaitGroup
	var hostErr, packagesErr error
	both.Go(func() { l.host, hostErr = e.open(ctx, progress) })
	both.Go(func() { l.packages, packagesErr = e.packages(ctx, plan, progress) })
	both.Wait()
	return l, e.failure(cmp.Or(hostErr, packagesErr))
}

// open makes the host when the first run comes.
func (e *Engine) open(ctx context.Context, progress func(string)) (*host, error) {
	if host := e.host.Load(); host != nil {
		return host, nil
	}
	if err := e.fenced(ctx); err != nil {
		return nil, err
	}
	runtime, logger, err := e.repo.Runtime(ctx, progress)
	if err != nil {
		return nil, err
	}
	e.opening.Lock()
	defer e.opening.Unlock()
	host := e.host.Load()
	if host == nil {
		if host, err = newHost(ctx, e.cfg, e.repo, runtime, logger); err != nil {
			return nil, &nodeError{err}
		}
		e.host.Store(host)
	}
	return host, nil
}

// collections is the adaptor that a job gets for speaking of collections.
const collections = "@openfn/language-collections"

// adaptorsOf returns what a job may import from without saying so.
func (e *Engine) adaptorsOf(job *runner.Job) []string {
	var specifiers []string
	if job.Adaptor != "" {
		specifiers = append(specifiers, job.Adaptor)
	}
	if name, _ := runner.SplitAdaptor(job.Adaptor); name != collections && e.usesCollections(*job) {
		specifiers = append(specifiers, collections+"@"+e.cfg.CollectionsVersion)
	}
	return specifiers
}

func (e *Engine) usesCollections(job runner.Job) bool {
	return e.cfg.CollectionsURL != "" && strings.Contains(job.Body, "collections.")
}
