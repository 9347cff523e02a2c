package runner

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime/debug"
	"sync"
	"time"

	"github.com/phxworker/phxworker/channel"
	"github.com/phxworker/phxworker/runner/terms"
)

// attend takes a joined run to its end, with what goes on beside it: its events are sent, the server is listened to,
// and the lease is kept. The failure is nil for a success; the error is for what could not be reported.
func (r *Runner) attend(work, report context.Context, topic *channel.Topic, run *Run) (failure *Failure, err error) {
	reportCtx, cancelReport := context.WithCancelCause(report)
	run.topic = topic
	defer run.freeRoom()
	sent := make(chan error, 1)
	var beside sync.WaitGroup
	beside.Go(func() {
		err := run.survive(func() error { return run.outbox.Deliver(reportCtx, topic) })
		if err != nil {
			run.cancelWork(topicLost(err)) // an engine that nobody can hear may stop
		}
		sent <- err
	})
	for _, task := range []func() error{
		func() error { run.listen(work, r.terms); return nil },
		// Under reportCtx: what is reported after the work has ended is under the lease, too.
		func() error { return r.terms.Keep(reportCtx, topic, run.lease, run.log) },
	} {
		beside.Go(func() {
			if err := run.survive(task); err != nil {
				cancelReport(err) // the outbox ends with that, and with it the engine's work
			}
		})
	}
	var result Result
	if mistake := run.survive(func() error {
		result, failure = r.work(work, reportCtx, run)
		return nil
	}); mistake != nil {
		failure = &Failure{Reason: Exception, Type: "WorkerError", Message: mistake.Error()}
	}
	err = run.survive(func() (err error) {
		failure, err = r.reportEnd(work, reportCtx, sent, run, result, failure)
		return err
	})
	run.cancelWork(nil)
	cancelReport(nil)
	beside.Wait()
	return failure, err
}

// survive calls do, and makes an error of a panic: a mistake of ours ends the run that it
// was made in, and not all the others of the worker.
func (r *Run) survive(do func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("a mistake in the worker: panic: %s", r.panicked("panic in the worker; the run ends", v))
		}
	}()
	return do()
}

// panicked counts and logs a panic, and returns what it says, without secrets.
func (r *Run) panicked(where string, v any) (said string) {
	r.count(func(s *Stats) { s.Panics++ })
	said = r.outbox.Scrub(fmt.Sprint(v))
	r.log.Error(where, "panic", said, "stack", string(debug.Stack()))
	return said
}

func (r *Runner) work(working, report context.Context, run *Run) (Result, *Failure) {
	run.enter(Loading)
	failure := failureOf(working, r.load(working, report, run))
	if err := run.topic.Err(); err != nil && run.returned == nil {
		failure = topicLost(err)
	}
	if failure != nil {
		return Result{}, failure
	}
	return r.carryOut(working, run)
}

// reportEnd reports the end of a run, unless it is returned to the queue; sent tells when all of its events
// were delivered. The error is why the server could not be told.
func (r *Runner) reportEnd(working, report context.Context, sent <-chan error, run *Run, result Result, failure *Failure) (*Failure, error) {
	run.enter(Reporting)
	if run.returned != nil || r.returnRun(working, report, run, failure) {
		run.outbox.Close()
		<-sent //nolint:errcheck // whatever came of it: the run is not ours any more
		return failure, nil
	}
	run.explain(failure)
	failure = run.complete(result, failure)
	err := <-sent
	switch {
	case err == nil:
	case run.lease.Lost(err): // it is not ours to report later either
		err = terms.ErrLeaseLost
	default:
		run.outbox.GiveUp(err)
	}
	return failure, err
}

// load fetches what the run needs before its engine can begin. A run is returned
// under report: its topic ends with that, and the work with the topic.
func (r *Runner) load(ctx, report context.Context, run *Run) error {
	if r.cfg.MaxAttempts > 0 && run.Attempt > r.cfg.MaxAttempts {
		return Poison(fmt.Sprintf("this is attempt %d of at most %d", run.Attempt, r.cfg.MaxAttempts))
	}
	if err := run.loadPlan(ctx, run.host.Begin() != nil); err != nil {
		return err
	}
	for err := awaitBegin(ctx, run.host.Begin()); err != nil; err = awaitBegin(ctx, run.host.Begin()) {
		failure := failureOf(ctx, err)
		if ctx.Err() != nil || !failure.returns() || r.returnRun(ctx, report, run, failure) {
			return err
		}
		run.log.Warn("a run that was claimed ahead could not be returned to the queue; it goes on waiting for a slot")
	}
	if run.Plan.Raw == nil { // not loaded yet
		if err := run.loadPlan(ctx, false); err != nil {
			return err
		}
	}
	err := r.accept(ctx, report, run)
	if err != nil {
		return err
	}
	if run.Input, err = run.fetchDataclip(ctx, run.Plan.DataclipID); err != nil {
		return err
	}
	if run.credentials, err = run.fetchCredentials(ctx, run.Plan.Jobs); err != nil {
		return err
	}
	run.outbox.Hide(run.credentials)
	return nil
}

// carryOut lets the engine prepare and execute a run that is loaded. It has the run's time for the one, and again for
// the other, as far as the run's token lasts: at its end the server calls the run lost, whatever was done.
func (r *Runner) carryOut(ctx context.Context, run *Run) (Result, *Failure) {
	var began time.Time // the last preparation
	run.able = sync.OnceFunc(func() { run.host.Able(began) })
	ready, failure := r.prepareOrWait(ctx, run, &began)
	if failure != nil {
		return Result{}, failure
	}
	run.Versions = Versions{"worker": r.cfg.Version}
	maps.Copy(run.Versions, ready.versions)

	end, early := run.lastMoment()
	late := timeout("Workflow failed to return within %dms", run.Limits.RunTimeout.Milliseconds())
	if early {
		late = timeout("The run had %v left of its %v when it began, and had to end before its token expires",
			max(time.Until(end), 0).Round(time.Millisecond), run.Limits.RunTimeout)
	}
	ctx, cancel := context.WithDeadlineCause(ctx, end, late)
	defer cancel()
	run.outbox.WaitUntil(ctx)
	run.notices, _ = ready.Execution.(Notifiable)
	run.enter(Executing)
	run.start(ready.versions)
	run.host.Started()
	soon := time.AfterFunc(ableAfter, run.able)
	result, failure := r.execute(ctx, run, ready)
	soon.Stop()
	if !run.wasUnable(failure) && ctx.Err() == nil {
		run.able()
	}
	if failure == nil {
		failure = run.verdict()
	}
	return result, failure
}

// lastMoment returns when the run must end if its time begins now. It is early where the run's token does not last for
// all of its time: its end has to be told while that is good.
func (r *Run) lastMoment() (at time.Time, early bool) {
	const toTell = 5 * time.Second
	at = time.Now().Add(r.Limits.RunTimeout)
	end, told := r.outbox.TokenEnd()
	if last := end.Add(-toTell); told && last.Before(at) {
		return last, true
	}
	return at, false
}

// longPreparation is more than an engine that is well takes to prepare a run; one with less
// time than that says nothing about its engine.
const longPreparation = 20 * time.Second

// ableAfter is how long an engine takes at most to find that it is not able to execute a run,
// as far as that can be waited for: it need not report steps.
const ableAfter = 500 * time.Millisecond

// prepareOrWait prepares a run. One that the engine is not able to prepare waits, for as long as the run might have
// taken, until there is sense in another try; but not where the server takes it back.
func (r *Runner) prepareOrWait(ctx context.Context, run *Run, began *time.Time) (readied, *Failure) {
	limit := run.Limits.RunTimeout
	end, _ := run.lastMoment()
	for {
		preparing, cancel := context.WithTimeoutCause(ctx, limit, timeout("The engine was not ready for the run within %v; what it waited for may be there the next time", limit))
		run.outbox.WaitUntil(preparing)
		run.enter(Preparing)
		*began = time.Now()
		ready, failure := r.prepare(preparing, run)
		cutOff := preparing.Err() != nil
		cancel()
		if cutOff && ctx.Err() == nil && limit >= longPreparation {
			run.host.Unable(fmt.Errorf("it was not ready for a run within %v", limit))
		}
		if !run.wasUnable(failure) {
			if failure != nil && !cutOff {
				run.able() // it knows what is wrong with the run
			}
			return ready, failure
		}
		if goesBack, _ := r.terms.TakesBack(); goesBack {
			return readied{}, failure
		}
		waiting, cancel := context.WithDeadline(ctx, end)
		err := run.host.AwaitEngine(waiting)
		cancel()
		if err != nil {
			return readied{}, failure
		}
	}
}

// wasUnable reports whether a run failed because its engine was not able to execute it, and
// tells so; the cause must have nothing of the run in it.
func (r *Run) wasUnable(failure *Failure) bool {
	if failure == nil || !failure.unable {
		return false
	}
	r.host.Unable(errors.New(firstLine(r.outbox.Scrub(failure.Message))))
	return true
}

// awaitBegin waits for the word that a run which was claimed ahead may go on. Of two
// that are there, the later one counts.
func awaitBegin(ctx context.Context, begin <-chan error) error {
	if begin == nil {
		return nil
	}
	select {
	case err := <-begin:
		select {
		case err = <-begin:
		default:
		}
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
