package openfn

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"github.com/phxworker/phxworker/internal/fence"
	"github.com/phxworker/phxworker/runner"
	"github.com/phxworker/phxworker/runner/command"
	"github.com/phxworker/phxworker/runner/openfn/adaptors"
)

// host is what executes the runs: processes of Node that run the files of the
// folder host with OpenFn's runtime.
type host struct {
	cfg     Config
	node    node
	runtime adaptors.Package
	repo    *adaptors.Repo
	pool    *command.Pool
	script  []byte

	mu      sync.Mutex
	large   map[*command.Pool]bool // those of runs with a larger heap; guarded by mu
	modules []string               // arguments that tell where the runtime and its logger are; guarded by mu

	warming      sync.Mutex
	couldNotWarm time.Time // guarded by warming
}

// hostRun is a run as the files of the folder host take it.
type hostRun struct {
	Plan    *runtimePlan    `json:"plan"`
	Input   json.RawMessage `json:"input,omitempty"`
	Options hostOptions     `json:"options"`
}

type hostOptions struct {
	JobLogLevel        string   `json:"job_log_level,omitempty"`
	StatePropsToRemove []string `json:"state_props_to_remove"`
	StateLimitMB       float64  `json:"state_limit_mb"` // beyond, the run fails; 0 for none
	PayloadMB          float64  `json:"payload_mb"`     // beyond, a state is not sent
	Room               int      `json:"room"`           // of a member of a message, in bytes
	OwnPort            int      `json:"own_port,omitempty"`

	Meta json.RawMessage `json:"meta"` // the global of all jobs
}

func newHost(ctx context.Context, cfg Config, repo *adaptors.Repo, runtime, logger adaptors.Package) (*host, error) {
	node, err := findNode(ctx)
	if err != nil {
		return nil, err
	}
	if node.Maps == "" && fence.Supported {
		const what = "no fences can be put around Node, for it cannot read in /proc what it is linked with"
		if cfg.RequireFences {
			return nil, errors.New(what)
		}
		cfg.Logger.Warn(what, "node", node.Path)
	}
	script, err := hostScript()
	if err != nil {
		return nil, err
	}
	h := &host{cfg: cfg, node: node, runtime: runtime, repo: repo, script: script, large: make(map[*command.Pool]bool), modules: modulesOf(runtime, logger)}
	h.pool, err = h.newPool(cfg.MemoryMB, cfg.Spares, cfg.Reuse)
	return h, err
}

// newPool returns a pool of processes with this heap.
func (h *host) newPool(memoryMB float64, spares, reuse int) (*command.Pool, error) {
	var wrap func(*exec.Cmd, string) error
	if h.node.Maps != "" {
		wrap = h.fence
	}
	return command.NewPool(command.Config{
		Args:  []string{h.node.Path},
		Grant: func(tmp string) ([]string, error) { return h.arguments(tmp, memoryMB) },
		Wrap:  wrap, Settings: fence.Settings, TempMB: h.cfg.TempMB, Cgroups: h.cfg.Cgroups,
		Env: environment(), Spares: spares, Runs: reuse, CancelGrace: -1, Died: died, Logger: h.cfg.Logger,
	})
}

// execute executes a run. V8 is told the limit of its heap as it starts, so a run
// that may have more than the others gets a pool of its own, for one process.
func (h *host) execute(ctx context.Context, run *runner.Run, req command.Request) (runner.Result, error) {
	if run.Limits.MemoryMB <= h.cfg.MemoryMB {
		return h.pool.Execute(ctx, run, req)
	}
	result, err := h.executeLarge(ctx, run, req)
	if errors.Is(err, command.ErrUnstarted) && h.pool.Start(ctx) == nil {
		return result, engineError(fmt.Errorf("no process can be started with the %.0f MB that the plan asks for", run.Limits.MemoryMB))
	}
	return result, err
}

func (h *host) executeLarge(ctx context.Context, run *runner.Run, req command.Request) (runner.Result, error) {
	pool, err := h.newPool(run.Limits.MemoryMB, 0, 1)
	if err != nil {
		return runner.Result{}, errors.Join(runner.Unable(engineError(err)), command.ErrUnstarted)
	}
	h.keep(pool, true)
	defer func() {
		_ = pool.Close()
		h.keep(pool, false)
	}()
	return pool.Execute(ctx, run, req)
}

func (h *host) keep(pool *command.Pool, there bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if there {
		h.large[pool] = true
	} else {
		delete(h.large, pool)
	}
}

func (h *host) processes() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := h.pool.Processes()
	for pool := range h.large {
		n += pool.Processes()
	}
	return n
}

// arguments are those of Node for a process with this temporary folder. The host's file
// lies there as well, not in one place for all: in its time somebody
// may clean up what is old and temporary.
func (h *host) arguments(tmp string, memoryMB float64) ([]string, error) {
	script := filepath.Join(tmp, hostFile)
	if err := os.WriteFile(script, h.script, 0o600); err != nil {
		return nil, fmt.Errorf("its file cannot be written: %w", err)
	}
	arguments := h.node.flags(memoryMB)
	for _, dir := range []string{h.repo.Dir(), h.cfg.MonorepoDir, tmp} {
		if dir != "" {
			arguments = append(arguments, "--allow-fs-read="+filepath.Join(dir, "*"))
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return append(append(arguments, "--allow-fs-write="+filepath.Join(tmp, "*"), script), h.modules...), nil
}

// modulesOf are the arguments of the host by which it finds the runtime and its logger.
func modulesOf(runtime, logger adaptors.Package) []string {
	if runtime.Bundled { // without ES modules around it, which take a twentieth of a run
		return []string{runtime.Loader()}
	}
	return []string{runtime.Entry, logger.Entry}
}

// fence has the kernel leave to a process with this temporary folder what Node's permissions
// do, and Node itself.
func (h *host) fence(process *exec.Cmd, tmp string) error {
	policy := fence.Policy{
		Read:    []string{h.repo.Dir(), h.cfg.MonorepoDir, os.Getenv(extraCertificates)},
		Write:   []string{tmp},
		Execute: append(fence.MappedIn(h.node.Maps), h.node.Path),
		MaxFile: uint64(h.cfg.TempMB) << 20, //nolint:gosec // not negative,
		Require: h.cfg.RequireFences,
	}
	if err := policy.Wrap(process); err != nil {
		return fmt.Errorf("no fences can be put around it: %w", err)
	}
	return nil
}

// check returns why no process can be started, and mends what can be mended.
func (h *host) check(ctx context.Context) error {
	err := h.pool.Check(ctx)
	if err != nil && h.mend(ctx) {
		return h.pool.Start(ctx)
	}
	return err
}

// mend has the runtime installed again if it is damaged, and reports whether it was.
func (h *host) mend(ctx context.Context) bool {
	mended, err := h.repo.Mend(ctx, h.runtime, nil)
	if err != nil {
		h.cfg.Logger.Warn("the runtime could not be installed again", "error", err)
	}
	if !mended {
		return false
	}
	runtime, logger, err := h.repo.Runtime(ctx, nil)
	if err != nil {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.modules = modulesOf(runtime, logger) // it may be bundled now, or no longer
	return true
}

func (h *host) close() error { return h.pool.Close() }

// warm makes the code caches that are missing; without them runs are slower, and
// nothing else. So nobody waits for another who makes them, and where they cannot
// be made, as in a repo that is read-only, that is not tried for every run.
func (h *host) warm(ctx context.Context, packages packagesByJob) {
	if !h.warming.TryLock() {
		return
	}
	defer h.warming.Unlock()
	if time.Since(h.couldNotWarm) < warmAgain {
		return
	}
	if err := h.repo.WarmCache(ctx, h.node.Path, h.node.flags(h.cfg.MemoryMB), append(packages.all(), h.runtime)...); err != nil && ctx.Err() == nil {
		h.couldNotWarm = time.Now()
		h.cfg.Logger.Warn("packages load more slowly than they could", "error", err)
	}
}

// warmAgain is how long after a failure it is tried again.
const warmAgain = 10 * time.Minute

// died tells a heap that was full from other deaths.
func died(exit command.Exit) *runner.Failure {
	if bytes.Contains(exit.Stderr, []byte("heap out of memory")) {
		return &runner.Failure{Reason: runner.Kill, Type: "OOMError", Message: "Run exceeded maximum memory usage"}
	}
	return nil
}
