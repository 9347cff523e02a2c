package runner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/phxworker/phxworker/channel"
	"github.com/phxworker/phxworker/claim"
	"github.com/phxworker/phxworker/runner/terms"
)

// Settlement is what became of a claimed run as far as the server's queue is concerned. There is exactly one for each.
type Settlement string

// The settlements.
const (
	Unsettled   Settlement = "unsettled"   // none: a mistake of ours
	Processed   Settlement = "processed"   // it was reported, with whatever reason
	Cancelled   Settlement = "cancelled"   // it was reported as cancelled
	Discarded   Settlement = "discarded"   // it was reported as not to be executed
	Poisonous   Settlement = "poisonous"   // it was reported as never to be tried again
	Requeued    Settlement = "requeued"    // it was returned to the queue after a failure, to be tried again
	Postponed   Settlement = "postponed"   // it was returned for later
	Returned    Settlement = "returned"    // it was returned untouched
	LeaseLost   Settlement = "lease_lost"  // it was another worker's by then; nothing was reported
	Undelivered Settlement = "undelivered" // the server could not be told
)

// Settlements returns all of them.
func Settlements() []Settlement {
	return []Settlement{Unsettled, Processed, Cancelled, Discarded, Poisonous, Requeued, Postponed, Returned, LeaseLost, Undelivered}
}

// InQueue reports whether the run is in the server's queue again.
func (s Settlement) InQueue() bool { return s == Requeued || s == Postponed || s == Returned }

// Elsewhere reports whether the run goes on, or ends, in another worker's hands.
func (s Settlement) Elsewhere() bool { return s.InQueue() || s == LeaseLost }

// disposition is an error by which an engine, or who accepts runs, says what is to become of the run other than that it
// failed. Its failure is what the run ends with where the server cannot do that, or where to be reported is what is wanted.
type disposition struct{ *Failure }

func (d disposition) Error() string {
	return strings.TrimSuffix("the run is to be "+string(d.settled)+": "+d.why, ": ")
}

// dispose returns a disposition. What the server is told of a release is empty for a run that is not returned.
func dispose(settled Settlement, release string, delay time.Duration, why string) disposition {
	message := why
	if settled.InQueue() {
		message = strings.TrimSuffix("The worker was to return the run to the queue, and the server did not take it: "+why, ": ")
	}
	return disposition{&Failure{
		Reason: Exception, Type: strings.ToUpper(string(settled[:1])) + string(settled[1:]), Message: message,
		settled: settled, release: release, delay: delay, why: why,
	}}
}

// ErrRequeue says that a run failed for a reason that may be gone when it is tried
// again, by this worker or another. Wrap it to say why. A server that takes no runs
// back (see docs/extensions/release.md) gets it as an exception of type Requeued.
var ErrRequeue error = dispose(Requeued, terms.ReleaseRequeue, 0, "")

// Requeue says the same as [ErrRequeue], for the reason given, and that the next try is to come after the delay at the
// earliest, 0 or less for 3 s. It counts as an attempt, so the delay can grow with [Run.Attempt].
func Requeue(delay time.Duration, reason string) error {
	return later(Requeued, terms.ReleaseRequeue, delay, reason)
}

// longestDelay is more than any server keeps a run for.
const longestDelay = 365 * 24 * time.Hour

// later returns the run after the delay. One that no server takes is a mistake, which ends the run.
func later(settled Settlement, release string, delay time.Duration, reason string) error {
	if delay > longestDelay {
		return &Failure{Reason: Exception, Type: "DelayError", Message: fmt.Sprintf("The run was to be %s for %v: a year is the most (%s)", settled, delay, reason)}
	}
	return dispose(settled, release, delay, reason)
}

// Unable says that an engine could not execute a run for a reason that lies in this worker and not in the run: no disk,
// no memory, a program that does not start. The run goes back as with [ErrRequeue]; a server that takes none back gets
// the failure. Its [Host] is told at once, for a worker had better take no more runs then.
func Unable(failure *Failure) error {
	if failure == nil {
		failure = &Failure{Reason: Exception, Type: "EngineError", Message: "The engine was not able to execute the run, and does not say why"}
	}
	d := dispose(Requeued, terms.ReleaseRequeue, 0, failure.Message)
	d.Reason, d.Type, d.Message, d.unable = failure.Reason, failure.Type, failure.Message, true
	return d
}

// Postpone says that a run is for later, at the earliest after the delay, for the reason given, and that nothing has
// failed: it counts as no attempt. It falls back as [ErrRequeue] does, with the type Postponed. More than a year, here
// and in [Requeue], ends the run as an exception; a server may bound it sooner.
func Postpone(delay time.Duration, reason string) error {
	return later(Postponed, terms.ReleasePostpone, delay, reason)
}

// Discard says that a run is not to be executed, for the reason given. It is
// reported as an exception of type Discarded.
func Discard(reason string) error { return dispose(Discarded, "", 0, reason) }

// Poison says that a run must never be tried again, for the reason given. It is
// reported as an exception of type Poisonous.
func Poison(reason string) error { return dispose(Poisonous, "", 0, reason) }

// ErrTooLong is for [Host.Begin]: the run was claimed ahead and has waited too long for a slot.
var ErrTooLong error = dispose(Returned, terms.ReleasePrefetch, 0, "it was claimed ahead, and has waited too long for a slot")

// dispositionOf returns the failure of a disposition, nil if an error is none.
func dispositionOf(err error) *Failure {
	d, is := errors.AsType[disposition](err)
	if is && d.why == "" && !d.unable && err.Error() != d.Error() { // ErrRequeue, wrapped with a reason
		return dispose(d.settled, d.release, d.delay, err.Error()).Failure
	}
	return d.Failure
}

// decides reports whether an error says itself what becomes of its run.
func decides(err error) bool { return errors.As(err, new(*Failure)) || dispositionOf(err) != nil }

// orException makes an exception of an error that does not.
func orException(err error, kind string) error {
	if err == nil || decides(err) {
		return err
	}
	return &Failure{Reason: Exception, Type: kind, Message: err.Error()}
}

func (f *Failure) returns() bool { return f != nil && f.settled.InQueue() }

// AcceptFunc decides, once the plan of a run is there and before anything else is
// fetched, whether this worker executes the run: nil accepts it; [ErrRequeue] returns it for
// another worker, [Postpone] for later; [Discard] and [Poison] end it. Any other error is an exception.
type AcceptFunc func(ctx context.Context, run *Run) error

// AcceptAdaptors accepts runs that need none but these adaptors, such as @openfn/language-http, in any version.
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

func (r *Runner) accept(ctx, report context.Context, run *Run) error {
	if at := run.Plan.Options.Deadline(); !at.IsZero() && time.Now().After(at) {
		return Discard("its deadline passed at " + at.UTC().Format(time.RFC3339))
	}
	if r.cfg.Accept == nil {
		return nil
	}
	// It is called as an engine is: a panic is one in the run, and a hook that never returns is left behind.
	_, failure := guard(ctx, r, run, func() (struct{}, error) {
		return struct{}{}, orException(r.cfg.Accept(ctx, run), "AcceptError")
	}, func(struct{}) {})
	switch {
	case ctx.Err() != nil: // whatever the hook made of that
		return context.Cause(ctx)
	case failure == nil:
		return nil
	case !failure.returns():
		return failure
	}
	back := *failure
	if back.settled == Requeued { // it was not tried, so it must not count as an attempt that failed
		back.settled, back.release = Returned, terms.ReleasePostpone
	}
	switch {
	case r.returnRun(ctx, report, run, &back):
		return failure
	case ctx.Err() != nil: // meanwhile
		return context.Cause(ctx)
	case r.cfg.RefuseUnsuitable:
		back.settled = ""
		return &back
	}
	run.log.Warn("the run is not for this worker, and the server takes none back: it is executed all the same", "error", disposition{failure})
	return nil
}

// requeueDelay keeps a run that one worker does not want from coming right back to it.
const requeueDelay = 3 * time.Second

// releaseStopped bounds the return of a run that was stopped with its worker: there must be time left to report it.
const releaseStopped = 5 * time.Second

// returnRun returns the run to the queue, if that is what the failure wants and the server
// takes it, and reports whether it is no longer this worker's.
func (r *Runner) returnRun(work, report context.Context, run *Run, failure *Failure) bool {
	if !failure.returns() {
		return false
	}
	delay := max(failure.delay, 0) // one that an engine has reckoned may be over by now
	if delay == 0 && failure.settled != Postponed {
		delay = requeueDelay
	}
	ctx, cancel := releasing(work, report, run.topic)
	defer cancel()
	if !r.terms.Return(ctx, run.topic, run.outbox.Flush, terms.NewRelease(run.given, failure.release, delay), failure.stopped, run.log) {
		return false
	}
	run.returned = failure
	return true
}

// Return returns a claimed run to the queue that is not under way here, if the server takes it, and reports whether it
// did. The reason is one of those of package terms.
func (r *Runner) Return(work, report context.Context, run claim.Run, reason string, delay time.Duration) bool {
	ctx, cancel := releasing(work, report, nil)
	defer cancel()
	returned := r.terms.Return(ctx, nil, nil, terms.NewRelease(run, reason, delay), true, r.logOf(run))
	if returned {
		r.count(func(s *Stats) { s.Settled[Returned]++ })
	}
	return returned
}

// releasing returns the context of a release: report, but not for long once the work has ended, and no longer at all
// once the run was cancelled, which is stronger. The topic is nil for a run that is not joined.
func releasing(work, report context.Context, topic *channel.Topic) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(report)
	stop := context.AfterFunc(work, func() {
		switch {
		case topic != nil && topic.Err() != nil: // most likely for the release, whose answer is on its way
		case errors.As(context.Cause(work), new(*Failure)):
			cancel()
		default:
			time.AfterFunc(releaseStopped, cancel)
		}
	})
	return ctx, func() { stop(); cancel() }
}
