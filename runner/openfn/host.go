package openfn

import (
	"bytes"
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/phxworker/phxworker/runner"
	"github.com/phxworker/phxworker/runner/command"
	"github.com/phxworker/phxworker/runner/openfn/adaptors"
)

//go:embed host/*.mjs
var hostFiles embed.FS

// host is what executes the runs: processes of Node that run the files of the
// folder host with OpenFn's runtime.
type host struct {
	node    node
	runtime adaptors.Package
	repo    *adaptors.Repo
	flags   []string
	dir     string // a temporary folder with the files
	pool    *command.Pool
	log     *slog.Logger

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
	StateLimitMB       float64  `json:"state_limit_mb"`
}

func newHost(ctx context.Context, cfg Config, repo *adaptors.Repo, runtime, logger adaptors.Package) (*host, error) {
	node, err := findNode(ctx)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "phxworker-host-")
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir) // Node's permissions are for real paths
	}
	if err != nil {
		return nil, err
	}
	h := &host{node: node, runtime: runtime, repo: repo, dir: dir, log: cfg.Logger}
	if err := os.CopyFS(dir, hostFiles); err != nil {
		_ = os.RemoveAll(dir)
		return nil, fmt.Errorf("the files of the host cannot be written: %w", err)
	}
	h.flags = node.flags(cfg.MemoryMB)
	files := filepath.Join(dir, "host")
	h.pool, err = command.NewPool(command.Config{
		Args: []string{node.Path, filepath.Join(files, "host.mjs"), runtime.Entry, logger.Entry},
		Grant: func(tmp string) []string {
			grants := append([]string{}, h.flags...)
			for _, dir := range []string{files, repo.Dir(), cfg.MonorepoDir, tmp} {
				if dir != "" {
					grants = append(grants, "--allow-fs-read="+filepath.Join(dir, "*"))
				}
			}
			return append(grants, "--allow-fs-write="+filepath.Join(tmp, "*"))
		},
		Env: environment(), Spares: cfg.Spares, Runs: cfg.Reuse, CancelGrace: -1, Died: died, Logger: cfg.Logger,
	})
	if err != nil {
		_ = os.RemoveAll(dir)
		return nil, err
	}
	return h, nil
}

func (h *host) close() error {
	err := h.pool.Close()
	_ = os.RemoveAll(h.dir)
	return err
}

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
	if err := h.repo.WarmCache(ctx, h.node.Path, h.flags, append(packages.all(), h.runtime)...); err != nil && ctx.Err() == nil {
		h.couldNotWarm = time.Now()
		h.log.Warn("packages load more slowly than they could", "error", err)
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

// node is the Node that is installed.
type node struct {
	Path    string `json:"-"`
	Version string `json:"version"`
	// Flags are those that it knows, of the ones that fence a job in.
	Flags      []string `json:"flags"`
	permission []string // those that a job runs under
}

// environment is all that a job could see of the worker's: what programs need to
// find each other, and certificates that are trusted besides.
func environment() []string { return command.Environment("NODE_EXTRA_CA_CERTS") }

// allowNet lets jobs use the network, where Node has a permission for it.
const allowNet = "--allow-net"

// minimumNode is the first version with a permission model that holds.
const minimumNode = "20.16"

// findNode asks the node in PATH what it is.
func findNode(ctx context.Context) (node, error) {
	path, err := exec.LookPath("node")
	if err != nil {
		return node{}, noEngine("the OpenFn engine needs Node, and there is none in PATH: install Node %s or later", minimumNode)
	}
	const ask = `console.log(JSON.stringify({version: process.versions.node,
		flags: ['--permission', '--experimental-permission', '--allow-net', '--allow-wasi', '--experimental-sqlite'].filter(f => process.allowedNodeEnvironmentFlags.has(f))}))`
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, "--no-warnings", "-e", ask) //nolint:gosec // the node in PATH
	cmd.Env = environment()
	out, err := cmd.Output()
	n := node{Path: path}
	if err == nil {
		err = json.Unmarshal(out, &n)
	}
	switch {
	case err != nil:
		return node{}, noEngine("%s does not say what version it is: %v", path, err)
	case !slices.Contains(n.Flags, "--allow-wasi"): // before it was there, WASI went past all permissions
		return node{}, noEngine("the OpenFn engine needs Node %s or later; %s is %s", minimumNode, path, n.Version)
	}
	n.permission = n.Flags[:1]
	if slices.Contains(n.Flags, allowNet) {
		n.permission = append(n.permission, allowNet)
	}
	if slices.Contains(n.Flags, "--experimental-sqlite") { // it opens files past all permissions
		n.permission = append(n.permission, "--no-experimental-sqlite")
	}
	return n, nil
}

// flags are those that jobs run under, besides the folders that they may use.
func (n node) flags(memoryMB float64) []string {
	flags := []string{
		"--experimental-vm-modules", // the runtime makes a module of each job
		"--no-warnings",
		"--max-old-space-size=" + strconv.Itoa(int(memoryMB)),
	}
	return append(flags, n.permission...)
}

// Warm makes the code caches of packages for engines of this Config, so that the
// first runs need not. The error says that those will be slower.
func Warm(ctx context.Context, cfg Config, repo *adaptors.Repo, packages ...adaptors.Package) error {
	n, err := findNode(ctx)
	if err != nil {
		return err
	}
	return repo.WarmCache(ctx, n.Path, n.flags(cfg.withDefaults().MemoryMB), packages...)
}

func noEngine(format string, args ...any) *runner.Failure {
	return &runner.Failure{Reason: runner.Exception, Type: "EngineError", Message: fmt.Sprintf(format, args...)}
}
