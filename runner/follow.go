package runner

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/phxworker/phxworker/channel"
)

// attend takes a joined run to its end, with what goes on beside it: its events are sent,
// the server is listened to, and the lease is kept. The failure is nil for a success; the
// error is for what could not be reported.
func (r *Runner) attend(work, report context.Context, topic *channel.Topic, run *Run) (failure *Failure, err error) {
	workCtx, cancelWork := context.WithCancelCause(work)
	reportCtx, cancelReport := context.WithCancelCause(report)
	run.cancelWork = cancelWork
	run.room.all = r.plans
	defer run.room.free()
	r.equip(run, topic)
	sent := make(chan error, 1)
	var beside sync.WaitGroup
	beside.Go(func() {
		err := run.survive(func() error { return run.outbox.run(reportCtx) })
		if err != nil {
			cancelWork(topicLost(err)) // an engine that nobody can hear may stop
		}
		sent <- err
	})
	listener := &listener{topic: topic, set: r.cfg.Extensions, engine: r.cfg.Engine, run: run, cancel: cancelWork}
	// Under reportCtx: what is reported after the work has ended is under the lease, too.
	keeper := &keeper{lease: run.outbox.lease, topic: topic, set: r.cfg.Extensions, run: run}
	for _, task := range []func() error{
		func() error { listener.listen(workCtx); return nil },
		func() error { return keeper.keep(reportCtx) },
	} {
		beside.Go(func() {
			if err := run.survive(task); err != nil {
				cancelReport(err) // the outbox ends with that, and with it the engine's work
			}
		})
	}
	var result Result
	mistake := run.survive(func() error {
		result, failure = r.work(workCtx, reportCtx, topic, run)
		return nil
	})
	if mistake != nil {
		failure = &Failure{Reason: Exception, Type: "WorkerError", Message: mistake.Error()}
	}
	if mistake := run.survive(func() error {
		failure, err = r.tell(workCtx, reportCtx, sent, run, result, failure)
		return nil
	}); mistake != nil {
		err = mistake
	}
	cancelWork(nil)
	cancelReport(nil)
	beside.Wait()
	return failure, err
}

// survive calls do, and makes an error of a panic: a mistake of ours ends the run that it
// was made in, and not all the others of the worker.
func (r *Run) survive(do func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			r.tally.panics.Add(1)
			said := r.scrub.plain(fmt.Sprint(v))
			r.log.Error("panic in the worker; the run ends", "panic", said, "stack", string(debug.Stack()))
			err = fmt.Errorf("a mistake in the worker: panic: %s", said)
		}
	}()
	return do()
}

// work takes a joined run to the end of its execution.
func (r *Runner) work(working, report context.Context, topic *channel.Topic, run *Run) (Result, *Failure) {
	run.enter(Loading)
	failure := failureOf(working, r.load(working, report, topic, run))
	if err := topic.Err(); err != nil && run.settled == Unsettled {
		failure = topicLost(err)
	}
	if failure != nil {
		return Result{}, failure
	}
	return r.carryOut(working, run)
}

// tell reports the end of a run, unless it is returned to the queue; sent tells when all of its events
// were delivered. The error is why the server could not be told.
func (r *Runner) tell(working, report context.Context, sent <-chan error, run *Run, result Result, failure *Failure) (*Failure, error) {
	run.enter(Reporting)
	if run.settled != Unsettled || r.release(working, report, run, failure) {
		run.outbox.close()
		<-sent //nolint:errcheck // whatever came of it: the run is not ours any more
		return failure, nil
	}
	run.explain(failure)
	if failure != nil && run.Versions != nil {
		run.closeOpen(failure)
	}
	complete := run.lastEvent(result, failure)
	run.outbox.force(complete, len(complete.state))
	run.outbox.close()
	if err := <-sent; err != nil {
		return complete.failure, r.giveUp(run, err)
	}
	if complete.refusal != nil {
		run.log.Error("the end of the run was refused; the server does not have it from this worker", "error", complete.refusal)
	}
	return complete.failure, complete.refusal
}

// equip gives the run the outbox through which the server hears of it.
func (r *Runner) equip(run *Run, topic *channel.Topic) {
	patience := newPatience(run.given.Token, run.given.Claimed, r.cfg.MessageTimeout, r.hurry)
	if patience.untold {
		r.toldUntold.Do(func() {
			r.cfg.Logger.Warn("the server's run tokens do not tell how long they live; what cannot be reported of a run is given up when it was claimed so long ago", "after", untoldLife)
		})
	}
	box := newOutbox(topic, run.log, r.cfg.OutboxBytes, patience, &r.tally)
	if batch := r.cfg.BatchLogs; batch.Limit > 1 {
		box.batches = &batches{runID: run.ID, cfg: batch, known: &r.batched, off: &r.unbatched}
	}
	box.lease = newLease(run.given)
	run.mu.Lock()
	defer run.mu.Unlock()
	run.outbox = box
}

// load fetches what the run needs before its engine can begin. A run is returned
// under report: its topic ends with that, and the work with the topic.
func (r *Runner) load(ctx, report context.Context, topic *channel.Topic, run *Run) error {
	if r.cfg.MaxAttempts > 0 && run.Attempt > r.cfg.MaxAttempts {
		return Poison(fmt.Sprintf("this is attempt %d of at most %d", run.Attempt, r.cfg.MaxAttempts))
	}
	fetch := fetcher{run: run, topic: topic, patience: run.outbox.patience, room: &run.room}
	plan, err := r.plan(ctx, &fetch, run.begin != nil)
	if err != nil {
		return err
	}
	for err := await(ctx, run.begin); err != nil; err = await(ctx, run.begin) {
		failure := failureOf(ctx, err)
		if ctx.Err() != nil || failure.wants == nil || !failure.wants.gives() || r.release(ctx, report, run, failure) {
			return err
		}
		run.log.Warn("a run that was claimed ahead could not be returned to the queue; it goes on waiting for a slot")
	}
	if plan == nil {
		if plan, err = r.plan(ctx, &fetch, false); err != nil {
			return err
		}
	}
	if err := r.accept(ctx, report, run); err != nil || run.settled != Unsettled {
		return err
	}
	if run.Input, err = fetch.dataclip(ctx, plan.DataclipID); err != nil {
		return err
	}
	if run.credentials, err = fetch.credentials(ctx, plan.Jobs); err != nil {
		return err
	}
	run.scrub.learn(run.given.Token, run.credentials)
	run.outbox.afterRejoin(func(ctx context.Context, join *channel.Join) {
		if !fetch.credentialsAgain(ctx, join, plan.Jobs) {
			run.outbox.afterRejoin(func(context.Context, *channel.Join) {})
		}
	})
	return nil
}

// plan fetches the plan of a run; see [fetcher.plan].
func (r *Runner) plan(ctx context.Context, fetch *fetcher, ahead bool) (*Plan, error) {
	plan, err := fetch.plan(ctx, ahead)
	if plan != nil {
		fetch.run.Plan, fetch.run.Limits = plan, r.cfg.Limits.override(plan.Options)
	}
	return plan, err
}

// carryOut lets the engine prepare and execute a run that is loaded. It has the
// run's time for the one, and again for the other, as far as the run's token
// lasts: at its end the server calls the run lost, whatever was done.
func (r *Runner) carryOut(ctx context.Context, run *Run) (Result, *Failure) {
	var began time.Time // the last preparation
	if r.cfg.Health != nil {
		run.able = sync.OnceFunc(func() { r.cfg.Health.Able(run.ID, began) })
	}
	versions, failure := r.prepareOrWait(ctx, run, &began)
	if failure != nil {
		return Result{}, failure
	}
	run.Versions = versions

	end, late := run.outbox.patience.deadline(run.Limits.RunTimeout)
	ctx, cancel := context.WithDeadlineCause(ctx, end, late)
	defer cancel()
	run.setDone(ctx)
	run.enter(Executing)
	run.report(&runStart{versions: versions, at: time.Now()}, 0)
	soon := time.AfterFunc(ableAfter, run.able)
	result, failure := r.execute(ctx, run)
	soon.Stop()
	if !r.wasUnable(run, failure) && ctx.Err() == nil {
		run.able()
	}
	if failure == nil {
		return result, worstLeaf(run)
	}
	return result, failure
}

// longPreparation is more than an engine that is well takes to prepare a run; one with less
// time than that says nothing about its engine.
const longPreparation = 20 * time.Second

// ableAfter is how long an engine takes at most to find that it is not able to execute a run,
// as far as that can be waited for: it need not report steps.
const ableAfter = 500 * time.Millisecond

// prepareOrWait prepares a run. One that the engine is not able to prepare waits, for as long
// as the run might have taken, until there is sense in another try; but not where the
// server takes it back.
func (r *Runner) prepareOrWait(ctx context.Context, run *Run, began *time.Time) (Versions, *Failure) {
	limit := run.Limits.RunTimeout
	end, _ := run.outbox.patience.deadline(limit)
	waiting, cancel := context.WithDeadline(ctx, end)
	defer cancel()
	for {
		preparing, cancel := context.WithTimeoutCause(ctx, limit, unreadyFailure(limit))
		run.setDone(preparing)
		run.enter(Preparing)
		*began = time.Now()
		versions, failure := r.prepare(preparing, run)
		cutOff := preparing.Err() != nil
		cancel()
		if cutOff && ctx.Err() == nil && limit >= longPreparation && r.cfg.Health != nil {
			r.cfg.Health.Unable(fmt.Errorf("it was not ready for a run within %v", limit))
		}
		if !r.wasUnable(run, failure) {
			if failure != nil && !cutOff {
				run.able() // it knows what is wrong with the run
			}
			return versions, failure
		}
		if r.cfg.Health == nil || r.cfg.Releaser != nil && r.cfg.Releaser.CanRelease(noWait) || r.cfg.Health.Await(waiting, run.ID) != nil {
			return nil, failure
		}
	}
}

// noWait is a context for those who do not wait.
var noWait = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// wasUnable reports whether a run failed because its engine was not able to execute it, and
// tells so; the cause must have nothing of the run in it.
func (r *Runner) wasUnable(run *Run, failure *Failure) bool {
	if failure == nil || failure.wants == nil || failure.wants.unable == nil {
		return false
	}
	if r.cfg.Health != nil {
		r.cfg.Health.Unable(errors.New(firstLine(run.scrub.plain(failure.Message))))
	}
	return true
}

// await waits for the word that a run which was claimed ahead may go on. Of two
// that are there, the later one counts.
func await(ctx context.Context, begin <-chan error) error {
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
