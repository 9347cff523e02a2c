package openfn

import (
	"bytes"
	"context"
	"embed"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
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
	StateLimitMB       float64  `json:"state_limit_mb"` // beyond, the run fails
	PayloadMB          float64  `json:"payload_mb"`     // beyond, a state is not sent
}

func newHost(ctx context.Context, cfg Config, repo *adaptors.Repo, runtime, logger adaptors.Package) (*host, error) {
	node, err := findNode(ctx)
	if err != nil {
		return nil, err
	}
	h := &host{node: node, runtime: runtime, repo: repo, flags: node.flags(cfg.MemoryMB), log: cfg.Logger}
	h.pool, err = command.NewPool(command.Config{
		Args:  []string{node.Path, runtime.Entry, logger.Entry},
		Grant: func(tmp string) []string { return h.arguments(tmp, cfg.MonorepoDir) },
		Env:   environment(), Spares: cfg.Spares, Runs: cfg.Reuse, CancelGrace: -1, Died: died, Logger: cfg.Logger,
	})
	return h, err
}

// arguments are those of Node for a process with this temporary folder. The files
// of the host lie there as well, not in one folder for all: in its time somebody
// may clean up what is old and temporary.
func (h *host) arguments(tmp, monorepo string) []string {
	if err := os.CopyFS(tmp, hostFiles); err != nil { // so it does not start, and Node says which file is missing
		h.log.Error("the files of the engine cannot be written", "error", err)
	}
	arguments := slices.Clone(h.flags)
	for _, dir := range []string{h.repo.Dir(), monorepo, tmp} {
		if dir != "" {
			arguments = append(arguments, "--allow-fs-read="+filepath.Join(dir, "*"))
		}
	}
	return append(arguments, "--allow-fs-write="+filepath.Join(tmp, "*"), filepath.Join(tmp, "host", "host.mjs"))
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
