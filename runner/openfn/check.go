package openfn

import (
	"context"
	"errors"
	"strings"
	"sync"

	"github.com/phxworker/phxworker/internal/fence"
	"github.com/phxworker/phxworker/runner/openfn/adaptors"
)

// health is what an engine remembers of what it was not able to do.
type health struct {
	mu      sync.Mutex
	checked bool   // once at least
	sealed  bool   // nothing can be installed here, and that is meant so
	missing string // what could not be installed last, for a reason of the worker's
}

// failed notes that an install failed for a reason of this machine. It reports whether that
// is an illness: that the folder is closed is none where it was from the first.
func (h *health) failed(specifier string, closed bool) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.sealed && closed {
		return false
	}
	h.missing = specifier
	return true
}

func (h *health) lacks() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.missing
}

func (h *health) has(specifier string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.missing == specifier {
		h.missing = ""
	}
}

// sealing notes whether the folder takes installs. It reports whether it is one that was
// filled beforehand and closed: it takes none from the first time on, and has the runtime.
func (h *health) sealing(closed, filled bool) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.sealed = closed && filled && (!h.checked || h.sealed)
	h.checked = true
	return h.sealed
}

// Check implements [runner.Checker]: a file is written in the folder for adaptors, what
// could not be installed last is tried again, and a process is started, unless the latest one was
// ready. Before the runtime is installed, which the first run does, Node is asked for its
// version. A folder that was filled beforehand need not take any more.
func (e *Engine) Check(ctx context.Context) error {
	err := e.check(ctx)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err == nil:
		return nil
	}
	if line, _, longer := strings.Cut(err.Error(), "\n"); longer {
		return errors.New(line)
	}
	return err // with its cause, which may be one that does not pass
}

func (e *Engine) check(ctx context.Context) error {
	if err := e.fenced(ctx); err != nil {
		return e.unlessOptional(err)
	}
	if e.host.Load() == nil {
		if err := CheckNode(ctx); err != nil {
			return e.unlessOptional(err)
		}
	}
	filled := e.host.Load() != nil || e.repo.HasRuntime()
	closed, err := e.repo.Check()
	if err != nil && !e.health.sealing(closed, filled) {
		return err
	}
	if err == nil {
		e.health.sealing(false, filled)
	}
	if missing := e.health.lacks(); missing != "" {
		_, err := e.repo.Resolve(ctx, missing, nil)
		if install, ok := errors.AsType[*adaptors.InstallError](err); ctx.Err() != nil || ok && install.Unable {
			return err
		}
		e.health.has(missing)
	}
	if !filled && !e.repo.HasRuntime() {
		return nil
	}
	host, err := e.open(ctx, func(string) {})
	if _, none := errors.AsType[*nodeError](err); none {
		return e.unlessOptional(err)
	}
	if err != nil {
		return err
	}
	return host.check(ctx)
}

// fenced returns which of the fences are down, if all are required, as a [*nodeError].
func (e *Engine) fenced(ctx context.Context) error {
	if !e.cfg.RequireFences || e.fences.Load() {
		return nil
	}
	if err := fence.Require(fence.Probe(ctx)); err != nil {
		return &nodeError{err}
	}
	e.fences.Store(true)
	return nil
}

func (e *Engine) unlessOptional(err error) error {
	if e.cfg.Optional {
		return nil
	}
	return err
}
