package runner

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"

	"github.com/phxworker/phxworker/runner/delivery"
	"github.com/phxworker/phxworker/runner/terms"
)

// Notifiable is an [Execution] that takes notices: JSON objects that the server sends to a run under way, where it and
// the worker have agreed on the extension notify. Notify is called from another goroutine than Execute, one notice at a
// time, and should return soon. It may come a moment before Execute is called, or after Close.
type Notifiable interface {
	Execution
	Notify(ctx context.Context, notice json.RawMessage)
}

func (r *Run) listen(ctx context.Context, to *terms.Terms) {
	to.Listen(ctx, r.topic, func(message string) {
		r.cancelWork(Cancellation(delivery.Short(cmp.Or(message, "The run was cancelled by the server"))))
	}, func(ctx context.Context, notice json.RawMessage) {
		if err := r.notify(ctx, notice); err != nil {
			r.log.Debug("a notice came that nobody takes just now", "error", err)
		}
	}, r.log)
}

// ErrNoNotices says that a run takes no notices: its engine does not, or it is not being executed just now.
var ErrNoNotices = errors.New("the run takes no notices: its engine does not, or it is not executed just now")

// notify hands a notice to the engine, and waits for it and for those before it, but not once ctx has ended. A panic over it
// has no other effect, nor has an engine that ends its goroutine.
func (r *Run) notify(ctx context.Context, notice []byte) error {
	var to Notifiable
	r.mu.Lock()
	if r.phase == Executing {
		to = r.notices
	}
	r.mu.Unlock()
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
		defer func() {
			if v := recover(); v != nil {
				r.panicked("panic in the engine over a notice", v)
			}
			<-r.noticing
			close(taken)
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

// Notify hands a notice, any JSON, to a run under way, as if the server had sent it, and waits until it was taken, or
// ctx ends. The error is [ErrNoRun], [ErrNoNotices], or the cause of the end of ctx.
func (r *Runner) Notify(ctx context.Context, runID string, notice json.RawMessage) error {
	run := r.underWay(runID)
	if run == nil {
		return ErrNoRun
	}
	return run.notify(ctx, notice)
}
