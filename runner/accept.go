package runner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/phxworker/phxworker/channel"
	"github.com/phxworker/phxworker/runner/terms"
)

// AcceptFunc decides, once the plan of a run is there and before anything else is
// fetched, whether this worker executes the run: nil accepts it; [ErrRequeue] returns it for
// another worker, [Postpone] for later; [Discard] and [Poison] end it. Any other error is an exception.
type AcceptFunc func(ctx context.Context, run *Run) error

// AcceptAdaptors accepts runs that need none but these adaptors, such as
// @openfn/language-http, in any version.
func AcceptAdaptors(names ...string) AcceptFunc {
	return func(_ context.Context, run *Run) error {
		for i := range run.Plan.Jobs {
			name, _ := SplitAdaptor(run.Plan.Jobs[i].Adaptor)
			if name != "" && !slices.Contains(names, name) {
				return fmt.Errorf("the adaptor %s is not for this worker: %w", name, ErrRequeue)
			}
		}
		return nil
	}
}

// accept decides on a run whose plan is there.
func (r *Runner) accept(ctx, report context.Context, run *Run) error {
	if at := run.Plan.Options.Deadline(); !at.IsZero() && time.Now().After(at) {
		return Discard("its deadline passed at " + at.UTC().Format(time.RFC3339))
	}
	if r.cfg.Accept == nil {
		return nil
	}
	err := r.ask(ctx, run)
	d := dispositionOf(err)
	switch {
	case err == nil || d == nil:
		return acceptFailure(err)
	case !d.returns():
		return err
	}
	back := *d
	if d.settled == Requeued { // it was not tried, so it must not count as an attempt that failed
		back.settled, back.release = Returned, terms.ReleasePostpone
	}
	switch {
	case r.returnRun(ctx, report, run, &Failure{wants: &back}):
		return err
	case r.cfg.RefuseUnsuitable:
		return d.failure()
	}
	run.log.Warn("the run is not for this worker, and the server takes none back: it is executed all the same", "error", err)
	return nil
}

// ask calls the hook, as an engine is called: a panic is one in the run, and a hook
// that never returns is left behind.
func (r *Runner) ask(ctx context.Context, run *Run) error {
	answer, failure := guard(ctx, r, run, func() (error, error) { return r.cfg.Accept(ctx, run), nil }, func(error) {})
	if failure != nil {
		return failure
	}
	return answer
}

func acceptFailure(err error) error {
	var failure *Failure
	if err == nil || errors.As(err, &failure) {
		return err
	}
	return &Failure{Reason: Exception, Type: "AcceptError", Message: err.Error()}
}

// requeueDelay keeps a run that one worker does not want from coming right back to
// it.
const requeueDelay = 3 * time.Second

// releaseStopped bounds the return of a run that was stopped with its worker: there must
// be time left to report it.
const releaseStopped = 5 * time.Second

// returnRun returns the run to the queue, if that is what the failure wants and the server
// takes it, and reports whether it is no longer this worker's.
func (r *Runner) returnRun(work, report context.Context, run *Run, failure *Failure) bool {
	if failure == nil || failure.wants == nil || !failure.wants.returns() {
		return false
	}
	d := failure.wants
	delay := max(d.delay, 0) // one that an engine has reckoned may be over by now
	if delay == 0 && d.settled != Postponed {
		delay = requeueDelay
	}
	ctx, cancel := releasing(work, report, run.topic)
	defer cancel()
	release := terms.Release{ID: run.ID, Token: run.given.Token, Reason: d.release, DelayMS: delay.Milliseconds()}
	if !r.terms.Return(ctx, run.topic, run.outbox, release, d.stopped, run.log) {
		return false
	}
	run.settled, run.why = d.settled, d.reason
	return true
}

// releasing returns the context of a release: report, but not for long once the work
// has ended, and no longer at all once the run was cancelled, which is stronger.
func releasing(work, report context.Context, topic *channel.Topic) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(report)
	stop := context.AfterFunc(work, func() {
		switch {
		case topic.Err() != nil: // most likely for the release, whose answer is on its way
		case errors.As(context.Cause(work), new(*Failure)):
			cancel()
		default:
			time.AfterFunc(releaseStopped, cancel)
		}
	})
	return ctx, func() { stop(); cancel() }
}
