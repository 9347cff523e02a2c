package phxworker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/phxworker/phxworker/claim"
	"github.com/phxworker/phxworker/runner"
	"github.com/phxworker/phxworker/runner/terms"
	"github.com/phxworker/phxworker/slots"
)

// starter executes claimed runs, each in a goroutine that holds the run's slot
// from beginning to end.
type starter struct {
	maxRuns    int
	minBackoff time.Duration
	afterRun   func(RunResult)
	log        *slog.Logger

	tally  *tally
	feed   *feed
	budget *budget
	drain  *signal // raised when maxRuns were begun

	turnstile *turnstile
	intake    context.Context // ends when no more is claimed
	work      context.Context // the engines'
	report    context.Context // outlasts work by reportGrace
	runner    *runner.Runner
	sockets   *sockets
	queue     *queue
	stopped   atomic.Int64 // runs that the end of work cut short, or that came later

	mu     sync.Mutex
	active map[string]*underway // by id
	// begunRuns is how many there were, and lastRun when the last one came or ended.
	begunRuns int
	lastRun   time.Time
	done      sync.WaitGroup
}

// underway is a run from its claim to its end.
type underway struct {
	claim.Run

	cancel context.CancelCauseFunc
	// proven is called once the run can no longer be lost to an engine that is ill.
	proven func()
	// begin tells a run that was claimed ahead to go on (nil) or to go back (an error). It has
	// room for one of each, so that the loop never waits. It is nil for a run that has had a
	// slot from the beginning.
	begin chan error
	over  chan struct{} // closed when it has ended without a slot

	mu      sync.Mutex
	slot    *slots.Slot // nil while there is none
	ended   bool
	settled Settlement

	// What is below is guarded by starter.mu.

	started time.Time // when its engine began
	trial   bool      // it decides whether the engine is well
}

var _ claim.Starter = (*starter)(nil)

func newStarter(w *Worker, further *sockets, queue *queue, turnstile *turnstile, intake, work, report context.Context) *starter {
	s := &starter{
		maxRuns: w.cfg.MaxRuns, minBackoff: w.cfg.Claim.MinBackoff, afterRun: w.cfg.Hooks.AfterRun, log: w.log,
		tally: &w.tally, feed: &w.feed, budget: w.budget, drain: w.drain,
		turnstile: turnstile, intake: intake, work: work, report: report, sockets: further, queue: queue, active: make(map[string]*underway), lastRun: time.Now(),
	}
	hooks := &w.cfg.Hooks
	s.runner = runner.New(runner.Config{
		Engine: w.cfg.Engine, Middleware: append([]Middleware{s.begun}, hooks.Middleware...),
		Limits: w.cfg.Limits, Version: w.cfg.Version, Delivery: w.cfg.Delivery, Logger: w.log,
		Accept: hooks.Accept, RefuseUnsuitable: hooks.RefuseUnsuitable, MaxAttempts: w.cfg.MaxAttempts,
		Releaser: queue, Extensions: w.extensions, Health: s,
	})
	return s
}

// Start implements [claim.Starter].
func (s *starter) Start(run claim.Run, slot *slots.Slot) { s.take(run, slot, nil) }

// CanPrefetch implements [claim.Prefetcher].
func (s *starter) CanPrefetch() bool { return s.queue.canRelease() }

// Prefetch implements [claim.Prefetcher]: the run's topic is joined and its plan
// fetched. The dataclip is not: a server may erase it once it was read, and the
// run may yet go to another worker.
func (s *starter) Prefetch(run claim.Run) claim.Ahead {
	this := s.take(run, nil, make(chan error, 2))
	this.proven() // it waits for a slot, and could be returned
	return this
}

// take executes a run in a goroutine of its own.
func (s *starter) take(run claim.Run, slot *slots.Slot, begin chan error) *underway {
	s.turnstile.verified()
	this := &underway{Run: run, slot: slot, begin: begin, over: make(chan struct{})}
	this.proven = sync.OnceFunc(func() { s.turnstile.forget(run.Group) })
	s.done.Go(func() {
		defer this.proven()
		settled := runner.Unsettled
		defer func() { this.finish(settled) }() // whatever ends the goroutine
		settled = s.execute(this)
	})
	return this
}

// Start implements [claim.Ahead].
func (u *underway) Start(slot *slots.Slot) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.ended { // it had ended without a slot: its plan could not be read, or it was cancelled
		freeSlot(slot, u.settled)
		return
	}
	u.slot = slot
	u.begin <- nil
}

// Release implements [claim.Ahead].
func (u *underway) Release() {
	if len(u.begin) == 0 { // else it was not heard yet
		u.begin <- runner.ErrTooLong
	}
}

// Over implements [claim.Ahead].
func (u *underway) Over() <-chan struct{} { return u.over }

// finish frees the slot of a run that is over, if it has one.
func (u *underway) finish(settled Settlement) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.ended, u.settled = true, settled
	if u.slot == nil {
		close(u.over)
		return
	}
	freeSlot(u.slot, settled)
}

// freeSlot tells the claim loop whether a run has finished, or has only gone
// back to where it came from.
func freeSlot(slot *slots.Slot, settled Settlement) {
	if settled.InQueue() {
		slot.Return()
		return
	}
	slot.Release()
}

// execute takes a run to its end.
func (s *starter) execute(this *underway) Settlement {
	work, cancel := context.WithCancelCause(s.work)
	defer cancel(nil)
	this.cancel = cancel
	if !s.enlist(this) {
		s.log.Error("the server gave a run that this worker is executing already; not executed twice", "run_id", this.ID, "group", this.Group)
		s.returnDuplicate(this)
		return runner.Unsettled
	}
	over := false
	defer func() {
		if !over {
			s.dismiss(this)
			s.log.Error("a claimed run was not settled; this is a mistake in the worker", "run_id", this.ID, "group", this.Group)
		}
	}()
	s.feed.publish(Event{Kind: EventClaimed, RunID: this.ID, Group: this.Group})
	place := seat{sockets: s.sockets}
	defer place.free()
	outcome := s.runner.Run(work, s.report, &place, this.Run, this.begin)
	over = true
	place.free()
	s.settle(this, outcome)
	if outcome.Settled == runner.Undelivered || !outcome.Joined {
		s.pause()
	}
	return outcome.Settled
}

// settle tells everybody that a run is over.
func (s *starter) settle(this *underway, outcome runner.Outcome) {
	if s.work.Err() != nil && (outcome.Err != nil || outcome.Stopped) { // else only its report was under way
		s.stopped.Add(1)
	}
	ended := time.Now()
	lasted := ended.Sub(this.Claimed)
	result := RunResult{
		Outcome: outcome, Group: this.Group,
		Claimed: this.Claimed.UTC(), Started: s.dismiss(this).UTC(), Ended: ended.UTC(), Lasted: seconds(lasted),
	}
	if result.elsewhere() {
		result.Reason, result.Type = "", ""
	}
	s.tally.add(result, lasted)
	kind := EventCompleted
	switch {
	case outcome.Settled.InQueue():
		kind = EventReturned
	case outcome.Settled == runner.LeaseLost:
		kind = EventLeaseLost
	case outcome.Err != nil:
		kind = EventUndelivered
	}
	if outcome.Settled == runner.Undelivered || outcome.Err == nil && !outcome.Settled.InQueue() {
		s.budget.count(outcome.Err)
	}
	s.feed.publish(Event{Kind: kind, RunID: this.ID, Group: this.Group, Result: &result})
	s.after(result)
}

// after calls the hook AfterRun. A panic in it ends nothing else.
func (s *starter) after(result RunResult) {
	if s.afterRun == nil {
		return
	}
	defer func() {
		if v := recover(); v != nil {
			s.log.Error("panic in AfterRun", "run_id", result.RunID, "group", result.Group, "panic", panicOfHook(v), "stack", string(debug.Stack()))
		}
	}()
	s.afterRun(result)
}

// panicOfHook is what may be logged of a panic in a hook. Its words are the program's own, and
// may quote secrets of the run, which nobody keeps any longer to replace them.
func panicOfHook(v any) string {
	if err, ok := v.(runtime.Error); ok { // such as an index out of range, which quotes nothing
		return err.Error()
	}
	return fmt.Sprintf("a %T, whose text may have secrets in it; see the stack", v)
}

// returnDuplicate returns a run that this worker is executing already. The server has taken
// it from the worker, which has not noticed yet; another worker may have it.
func (s *starter) returnDuplicate(this *underway) {
	defer s.pause()
	s.mu.Lock()
	active := s.active[this.ID]
	s.mu.Unlock()
	if active == nil || active.Token != this.Token { // else it is the very run that is executed
		s.queue.returnRun(s.report, this.Run, terms.ReleasePostpone, refusedFor)
	}
}

// refusedFor is how long nobody gets a run that this worker was given twice: it is
// about to notice that the first one is no longer its own.
const refusedFor = 3 * time.Second

// begun is the middleware that notes when a run begins to execute.
func (s *starter) begun(next ExecuteFunc) ExecuteFunc {
	return func(ctx context.Context, run *Run) (Result, error) {
		now := time.Now()
		s.mu.Lock()
		this := s.active[run.ID]
		this.started = now
		s.begunRuns++
		last := s.begunRuns == s.maxRuns
		s.mu.Unlock()
		if last {
			s.log.Info("stopping: as many runs were begun as there were to be", "runs", s.maxRuns)
			s.drain.raise()
		}
		s.tally.claimToStart.Observe(now.Sub(this.Claimed))
		if !this.Woken.IsZero() {
			s.tally.wakeToStart.Observe(now.Sub(this.Woken))
		}
		s.feed.publish(Event{Kind: EventStarted, RunID: run.ID, Group: this.Group})
		return next(ctx, run)
	}
}

// Able implements [runner.Health].
func (s *starter) Able(runID string, began time.Time) {
	s.turnstile.prove(began)
	s.mu.Lock()
	this := s.active[runID]
	s.mu.Unlock()
	if this != nil {
		this.proven()
	}
}

// Unable implements [runner.Health].
func (s *starter) Unable(cause error) { s.turnstile.trip(&s.turnstile.engine, cause) }

// Await implements [runner.Health].
func (s *starter) Await(ctx context.Context, runID string) error {
	trial, err := s.turnstile.await(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	if this := s.active[runID]; this != nil {
		this.trial = trial
	}
	return err
}

// pause holds up a slot whose run came to nothing. A server that refuses what
// it has just given away would otherwise be emptied, run by run, as fast as the
// network allows.
func (s *starter) pause() {
	timer := time.NewTimer(s.minBackoff)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-s.intake.Done(): // nothing is claimed for the slot any more
	}
}

// refuseToken notes that the token of a run is no good, and returns the run: another worker
// may find nothing wrong with it.
func (s *starter) refuseToken(run claim.Run, err error) {
	s.turnstile.forget(run.Group)
	level := slog.LevelError
	if refused, ok := errors.AsType[*claim.TokenError](err); ok && refused.Misfit() {
		level = slog.LevelWarn // the error is that of the key
		s.turnstile.trip(&s.turnstile.key, fmt.Errorf("the public key of the worker (WORKER_LIGHTNING_PUBLIC_KEY) does not fit the server's: %w", err))
	}
	s.done.Go(func() {
		back := run.ID != "" && s.queue.returnRun(s.report, run, terms.ReleasePostpone, refusedFor)
		s.log.Log(s.report, level, "run refused, it will not be started", "run_id", run.ID, "returned", back, "error", err)
	})
}

// enlist adds a run to those under way, and reports whether it was not there yet.
func (s *starter) enlist(this *underway) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.active[this.ID] != nil {
		return false
	}
	s.active[this.ID] = this
	s.lastRun = time.Now()
	return true
}

// dismiss takes a run from those under way, and returns when it had begun to execute.
func (s *starter) dismiss(this *underway) (started time.Time) {
	s.mu.Lock()
	delete(s.active, this.ID)
	s.lastRun = time.Now()
	started, trial := this.started, this.trial
	s.mu.Unlock()
	if trial {
		s.turnstile.trialOver()
	}
	return started
}

// cancel stops a run, and returns its group.
func (s *starter) cancel(id string, cause error) (group string, err error) {
	reported := func(p runner.Progress) bool { return p.RunID == id && p.Phase == runner.Reporting }
	if slices.ContainsFunc(s.runner.Active(), reported) {
		return "", ErrReporting
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	this := s.active[id]
	if this == nil {
		return "", ErrNoRun
	}
	this.cancel(cause)
	return this.Group, nil
}

// underway returns the runs under way, the oldest first.
func (s *starter) underway(now time.Time) (runs []RunStats) {
	for _, progress := range s.runner.Active() {
		s.mu.Lock()
		if this := s.active[progress.RunID]; this != nil { // else it has just ended
			inPhase := seconds(now.Sub(progress.Since))
			progress.Since = progress.Since.UTC()
			runs = append(runs, RunStats{
				Progress: progress, InPhase: inPhase,
				Group: this.Group, Claimed: this.Claimed.UTC(), Age: seconds(now.Sub(this.Claimed)), Started: this.started.UTC(),
			})
		}
		s.mu.Unlock()
	}
	slices.SortFunc(runs, byAge)
	return runs
}
