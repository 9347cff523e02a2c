package runner

import (
	"context"
	"errors"
	"time"

	"github.com/phxworker/phxworker/channel"
)

// Releaser returns runs to the queue, on servers that take them.
type Releaser interface {
	// CanRelease reports whether the server takes runs back. It waits for a
	// connection that is lost just now, until ctx ends.
	CanRelease(ctx context.Context) bool
	// Release gives a run back, to be available again after the delay. The error
	// says why the server did not take it; the run is still the worker's then.
	Release(ctx context.Context, r Release) error
}

// Release is a run to be returned, as the server is told.
type Release struct {
	ID    string `json:"id"`
	Token string `json:"token"`
	// Reason is one of requeue, postpone, drain and prefetch.
	Reason  string `json:"reason"`
	DelayMS int64  `json:"delay_ms"`
}

// The reasons of a release.
const (
	ReleaseRequeue  = "requeue"  // it failed, and is to be tried again
	ReleasePostpone = "postpone" // it is for later
	ReleaseDrain    = "drain"    // it came while the worker stops, and was not begun
	ReleasePrefetch = "prefetch" // it was claimed ahead, and has waited too long
)

// requeueDelay keeps a run that one worker does not want from coming right back to
// it.
const requeueDelay = 3 * time.Second

// releaseWithin bounds the wait for a connection to give a run back, and for what
// is to be delivered before.
const releaseWithin = 30 * time.Second

// releaseStopped is the same for a run that was stopped with its worker: there must
// be time left to report it.
const releaseStopped = 5 * time.Second

// release gives the run back, if that is what the failure wants and the server
// takes it, and reports whether it is no longer this worker's. What was reported up to then
// is delivered first.
func (r *Runner) release(work, report context.Context, run *Run, failure *Failure) bool {
	if failure == nil || failure.wants == nil || !failure.wants.gives() || r.cfg.Releaser == nil {
		return false
	}
	d := failure.wants
	ctx, cancel := releasing(work, report, run)
	defer cancel()
	if !r.canRelease(ctx, d) {
		return false
	}
	ctx, cancel = context.WithTimeout(ctx, releaseWithin)
	defer cancel()
	if run.outbox.flush(ctx) != nil {
		return false
	}
	delay := d.delay
	if delay == 0 && d.settled != Postponed {
		delay = requeueDelay
	}
	err := r.cfg.Releaser.Release(ctx, Release{ID: run.ID, Token: run.given.Token, Reason: d.release, DelayMS: delay.Milliseconds()})
	// A server that takes a run back closes its topic as well. That may be heard and
	// the answer be lost.
	refused := errors.As(err, new(*channel.RefusedError))
	if refused || err != nil && !errors.Is(run.outbox.topic.Err(), channel.ErrEnded) {
		run.log.Debug("the run could not be returned to the queue", "error", err)
		return false
	}
	run.settled, run.why = d.settled, d.reason
	return true
}

// releasing returns the context of a release: report, but not for long once the work
// has ended, and no longer at all once the run was cancelled, which is stronger.
func releasing(work, report context.Context, run *Run) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(report)
	stop := context.AfterFunc(work, func() {
		if run.outbox.topic.Err() != nil { // most likely for the release, whose answer is on its way
			return
		}
		if !errors.As(context.Cause(work), new(*Failure)) {
			timer := time.NewTimer(releaseStopped)
			defer timer.Stop()
			select {
			case <-timer.C:
			case <-ctx.Done():
			}
		}
		cancel()
	})
	return ctx, func() { stop(); cancel() }
}

// canRelease reports whether the server takes runs back, which is worth a wait; but
// not to a worker that stops, whose time is short.
func (r *Runner) canRelease(ctx context.Context, d *disposition) bool {
	if d.stopped {
		return r.cfg.Releaser.CanRelease(noWait)
	}
	ctx, cancel := context.WithTimeout(ctx, releaseWithin)
	defer cancel()
	return r.cfg.Releaser.CanRelease(ctx)
}
