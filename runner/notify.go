package runner

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"

	"github.com/phxworker/phxworker/runner/delivery"
)

// Notifiable is an [Execution] that takes notices: JSON objects that the server sends
// to a run under way, where it and the worker have agreed on the extension notify.
// Notify is called from another goroutine than Execute, one notice at a
// time, and should return soon. It may come a moment before Execute is called, or
// after Close.
type Notifiable interface {
	Execution
	Notify(ctx context.Context, notice json.RawMessage)
}

// hearer is told what the server has to say to one run.
type hearer struct{ run *Run }

// Cancel implements [terms.Hearer].
func (h *hearer) Cancel(message string) {
	h.run.cancelWork(Cancellation(delivery.Cut(cmp.Or(message, "The run was cancelled by the server"), delivery.MaxWords, "…")))
}

// Notify implements [terms.Hearer].
func (h *hearer) Notify(ctx context.Context, notice json.RawMessage) {
	if err := h.run.notify(ctx, notice); err != nil {
		h.run.log.Debug("a notice came that nobody takes just now", "error", err)
	}
}

// ErrNoNotices says that a run takes no notices: its engine does not, or it is not
// being executed just now.
var ErrNoNotices = errors.New("the run takes no notices: its engine does not, or it is not executed just now")

// notify hands a notice to the engine. One that panics over it has no other
// effect, and one that does not return is not waited for once ctx ends.
func (r *Run) notify(ctx context.Context, notice []byte) error {
	to := r.notifiable()
	if to == nil {
		return ErrNoNotices
	}
	select {
	case r.noticing <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	taken := make(chan struct{})
	go func() {
		defer close(taken)
		defer func() { <-r.noticing }()
		defer func() {
			if v := recover(); v != nil {
				r.panicked("panic in the engine over a notice", v)
			}
		}()
		to.Notify(ctx, notice)
	}()
	select {
	case <-taken:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// notifiable returns who takes notices just now, nil for nobody.
func (r *Run) notifiable() Notifiable {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.phase != Executing {
		return nil
	}
	return r.notices
}

// Notify hands a notice, any JSON, to a run under way, as if the server had sent it,
// and waits until it was taken, or ctx ends. The error is [ErrNoRun], [ErrNoNotices], or the
// cause of the end of ctx.
func (r *Runner) Notify(ctx context.Context, runID string, notice json.RawMessage) error {
	run := r.underWay(runID)
	if run == nil {
		return ErrNoRun
	}
	return run.notify(ctx, notice)
}
