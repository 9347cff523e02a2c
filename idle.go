package phxworker

import (
	"context"
	"time"
)

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
		left := w.cfg.IdleTimeout - runs.idle()
		if left <= 0 {
			w.log.Info("stopping: there was no run for too long", "idle_timeout", w.cfg.IdleTimeout)
			w.Drain()
			return
		}
		timer.Reset(left)
	}
}
