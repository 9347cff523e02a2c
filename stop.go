package phxworker

import (
	"context"
	"errors"
	"sync"
	"time"
)

// signal is something that happens once.
type signal struct {
	raised chan struct{} // closed when it has happened
	once   sync.Once
}

func newSignal() *signal { return &signal{raised: make(chan struct{})} }

// raise makes it happen. It may be called again.
func (s *signal) raise() { s.once.Do(func() { close(s.raised) }) }

// ErrTooManyErrors says that the worker stopped because [Config.MaxErrors] was
// reached.
var ErrTooManyErrors = errors.New("too many errors, the worker has stopped itself; the log says which")

// budget counts errors, takes one off for each success, and is spent for good
// when there are too many.
type budget struct {
	most  int // 0 for no limit
	spent *signal

	mu     sync.Mutex
	errors int
}

func newBudget(most int) *budget { return &budget{most: most, spent: newSignal()} }

func (b *budget) count(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.most == 0 || b.errors >= b.most:
	case err == nil:
		b.errors = max(0, b.errors-1)
	default:
		if b.errors++; b.errors == b.most {
			b.spent.raise()
		}
	}
}

// watchIdle stops the worker once it has had no run for as long as the
// configuration allows.
func (w *Worker) watchIdle(ctx context.Context, runs *starter) {
	if w.cfg.IdleTimeout <= 0 {
		return
	}
	timer := time.NewTimer(w.cfg.IdleTimeout)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-ctx.Done():
			return
		}
		left := w.cfg.IdleTimeout
		if running, _ := w.inUse(); running == 0 {
			left -= time.Since(*runs.lastRun.Load())
		}
		if left <= 0 {
			w.log.Info("stopping: there was no run for too long", "idle_timeout", w.cfg.IdleTimeout)
			w.Drain()
			return
		}
		timer.Reset(left)
	}
}

// limitGrace ends work a while after the intake ended, or when the worker is
// aborted.
func (w *Worker) limitGrace(work context.Context, stopWork context.CancelCauseFunc) {
	running, claimed := w.inUse()
	w.log.Info("stopping: no more claims, waiting for the runs to finish", "running", running, "unanswered_claims", claimed, "grace", w.cfg.Grace)
	grace := time.NewTimer(w.cfg.Grace)
	defer grace.Stop()
	select {
	case <-work.Done():
		return
	case <-grace.C:
	case <-w.abort.raised:
	}
	// With their ids: should the process end now, this is what is known of them.
	running, _ = w.inUse()
	w.log.Warn("stopping the runs under way", "running", running, "run_ids", w.status().Runs)
	w.moveTo(PhaseStopping)
	stopWork(errStopped)
}

// reportGrace is how long the server may take to hear how the runs ended that a
// worker stopped, and to answer a claim that was put before.
const reportGrace = 15 * time.Second

// lingering returns a context that ends a grace period after parent does.
func lingering(parent context.Context, grace time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(parent))
	stop := context.AfterFunc(parent, func() {
		timer := time.AfterFunc(grace, func() { cancel(context.Cause(parent)) })
		context.AfterFunc(ctx, func() { timer.Stop() })
	})
	return ctx, func() {
		stop()
		cancel(nil)
	}
}
