package phxworker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"runtime/debug"
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
	cfg    *Config
	log    *slog.Logger
	tally  *tally
	feed   *feed
	budget *budget
	drain  *signal // raised when [Config.MaxRuns] were begun

	turnstile *turnstile
	intake    context.Context // ends when no more is claimed
	work      context.Context // the engines'
	report    context.Context // outlasts work by reportGrace
	runner    *runner.Runner
	sockets   *sockets
	queue     *queue
	stopped   atomic.Int64 // runs that the end of work cut short, or that came later
	begun     atomic.Int64 // runs whose engine began
	lastRun   atomic.Pointer[time.Time]
	done      sync.WaitGroup
}

var _ claim.Prefetcher = (*starter)(nil)

func newStarter(w *Worker, further *sockets, queue *queue, turnstile *turnstile, intake, work, report context.Context) *starter {
	s := &starter{
		cfg: &w.cfg, log: w.log, tally: &w.tally, feed: &w.feed, budget: w.budget, drain: w.drain,
		turnstile: turnstile, intake: intake, work: work, report: report, sockets: further, queue: queue,
	}
	hooks := &w.cfg.Hooks
	s.runner = runner.New(runner.Config{
		Engine: w.cfg.Engine, Middleware: hooks.Middleware,
		Limits: w.cfg.Limits, Version: w.cfg.Version, Delivery: w.cfg.Delivery, Logger: w.log,
		Accept: hooks.Accept, RefuseUnsuitable: hooks.RefuseUnsuitable, MaxAttempts: w.cfg.MaxAttempts,
		Releaser: queue, Extensions: w.extensions,
	})
	s.noteRun()
	return s
}

// noteRun notes that a run came or went.
func (s *starter) noteRun() {
	now := time.Now()
	s.lastRun.Store(&now)
}

// underway is a run from its claim to its end.
type underway struct {
	claim.Run
	*starter

	// proven is called once the run can no longer be lost to an engine that is ill.
	proven func()
	// begin tells a run that was claimed ahead to go on (nil) or to go back (an error). It has
	// room for one of each, so that the loop never waits. It is nil for a run that has had a
	// slot from the beginning.
	begin chan error
	over  chan struct{} // closed when it has ended without a slot

	// What is below is its own goroutine's.

	trial bool // it decides whether the engine is well

	mu      sync.Mutex
	slot    *slots.Slot // nil while there is none
	ended   bool
	settled Settlement
}

func (s *starter) Start(run claim.Run, slot *slots.Slot) { s.launch(run, slot, nil) }

func (s *starter) CanPrefetch() bool {
	takesBack, _ := s.queue.TakesBack()
	return takesBack
}

// Prefetch implements [claim.Prefetcher]: the run's topic is joined and its plan
// fetched. The dataclip is not: a server may erase it once it was read, and the
// run may yet go to another worker.
func (s *starter) Prefetch(run claim.Run) claim.Ahead {
	u := s.launch(run, nil, make(chan error, 2))
	u.proven() // it waits for a slot, and could be returned
	return claim.Ahead{Start: u.startAhead, Return: u.returnAhead, Over: u.over}
}

// launch executes a run in a goroutine of its own.
func (s *starter) launch(run claim.Run, slot *slots.Slot, begin chan error) *underway {
	s.turnstile.verified()
	u := &underway{Run: run, starter: s, slot: slot, begin: begin, over: make(chan struct{})}
	u.proven = sync.OnceFunc(func() { s.turnstile.forget(run.Group) })
	s.done.Go(func() {
		defer u.proven()
		settled := runner.Unsettled
		defer func() { u.finish(settled) }() // whatever ends the goroutine
		settled = u.execute()
	})
	return u
}

// execute takes a run to its end.
func (u *underway) execute() Settlement {
	outcome := u.executeSeated()
	if errors.Is(outcome.Err, runner.ErrTwice) {
		u.log.Error("the server gave a run that this worker is executing already; not executed twice", "run_id", u.ID, "group", u.Group)
	} else {
		u.announce(outcome)
	}
	if outcome.Settled == runner.Undelivered || !outcome.Joined {
		u.pause()
	}
	return outcome.Settled
}

// refusedFor is how long nobody gets a run whose token this worker refused, so that it does
// not come right back.
const refusedFor = 3 * time.Second

// executeSeated executes the run; it has a place on a socket from the join of its topic to the end.
func (u *underway) executeSeated() runner.Outcome {
	place := seat{sockets: u.sockets}
	defer place.free()
	return u.runner.Run(u.work, u.report, &place, u.Run, u)
}

// announce tells everybody that a run is over.
func (u *underway) announce(outcome runner.Outcome) {
	if u.trial {
		u.turnstile.trialOver()
	}
	u.noteRun()
	if u.work.Err() != nil && (outcome.Err != nil || outcome.Stopped) { // else only its report was under way
		u.stopped.Add(1)
	}
	result := u.tally.add(outcome)
	kind := EventCompleted
	switch {
	case outcome.Settled.InQueue():
		kind = EventReturned
	case outcome.Settled == runner.LeaseLost:
		kind = EventLeaseLost
	case outcome.Err != nil:
		kind = EventUndelivered
	}
	if !outcome.Settled.Elsewhere() {
		u.budget.count(outcome.Err)
	}
	switch {
	case outcome.Refused:
		u.turnstile.refuse(outcome.Err)
	case outcome.Err == nil:
		u.turnstile.taken()
	}
	u.feed.publish(Event{Kind: kind, RunID: u.ID, Group: u.Group, Result: &result})
	u.callAfterRun(result)
}

// callAfterRun calls the hook. A panic in it ends nothing else.
func (s *starter) callAfterRun(result RunResult) {
	if s.cfg.Hooks.AfterRun == nil {
		return
	}
	defer func() {
		if v := recover(); v != nil {
			s.log.Error("panic in AfterRun", "run_id", result.RunID, "group", result.Group, "panic", panicOfHook(v), "stack", string(debug.Stack()))
		}
	}()
	s.cfg.Hooks.AfterRun(result)
}

// panicOfHook is what may be logged of a panic in a hook. Its words are the program's own, and
// may quote secrets of the run, which nobody keeps any longer to replace them.
func panicOfHook(v any) string {
	if err, ok := v.(runtime.Error); ok { // such as an index out of range, which quotes nothing
		return err.Error()
	}
	return fmt.Sprintf("a %T, whose text may have secrets in it; see the stack", v)
}

// pause holds up a slot whose run came to nothing. A server that refuses what
// it has just given away would otherwise be emptied, run by run, as fast as the
// network allows.
func (s *starter) pause() {
	timer := time.NewTimer(s.cfg.Claim.MinBackoff)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-s.intake.Done(): // nothing is claimed for the slot any more
	}
}

// finish frees the slot of a run that is over, if it has one.
func (u *underway) finish(settled Settlement) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.ended, u.settled = true, settled
	if u.slot == nil {
		close(u.over)
		return
	}
	u.freeLocked(u.slot)
}

// freeLocked tells the claim loop whether the run has finished, or has only gone
// back to where it came from.
func (u *underway) freeLocked(slot *slots.Slot) {
	if u.settled.InQueue() {
		slot.FreeReturned()
		return
	}
	slot.Free()
}

// startAhead gives a run that was claimed ahead its slot.
func (u *underway) startAhead(slot *slots.Slot) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.ended { // it had ended without a slot: its plan could not be read, or it was cancelled
		u.freeLocked(slot)
		return
	}
	u.slot = slot
	u.begin <- nil
}

// returnAhead asks for a run that was claimed ahead to be returned.
func (u *underway) returnAhead() {
	if len(u.begin) == 0 { // else it was not heard yet
		u.begin <- runner.ErrTooLong
	}
}

var _ runner.Host = (*underway)(nil)

func (u *underway) Begin() <-chan error { return u.begin }

func (u *underway) Joining() {
	u.noteRun()
	u.feed.publish(Event{Kind: EventClaimed, RunID: u.ID, Group: u.Group})
}

func (u *underway) Started() {
	if u.begun.Add(1) == int64(u.cfg.MaxRuns) {
		u.log.Info("stopping: as many runs were begun as there were to be", "runs", u.cfg.MaxRuns)
		u.drain.raise()
	}
	u.tally.start(u.Run)
	u.feed.publish(Event{Kind: EventStarted, RunID: u.ID, Group: u.Group})
}

func (u *underway) Able(began time.Time) {
	u.turnstile.prove(began)
	u.proven()
}

func (u *underway) Unable(cause error) { u.turnstile.trip(&u.turnstile.engine, cause) }

func (u *underway) AwaitEngine(ctx context.Context) (err error) {
	u.trial, err = u.turnstile.await(ctx)
	return err
}

// refuseToken notes that the token of a run is no good, and returns the run: another worker
// may find nothing wrong with it.
func (s *starter) refuseToken(run claim.Run, err error) {
	s.turnstile.forget(run.Group)
	s.turnstile.unverified(err)
	level := slog.LevelError
	if refused, ok := errors.AsType[*claim.TokenError](err); ok && (refused.Misfit() || refused.Early()) {
		level = slog.LevelWarn // the error is that of the key, or the clock
	}
	s.done.Go(func() {
		back := run.ID != "" && s.runner.Return(s.work, s.report, run, terms.ReleasePostpone, refusedFor)
		s.log.Log(s.report, level, "run refused, it will not be started", "run_id", run.ID, "returned", back, "error", err)
	})
}

// returnUnbegun returns a run to the queue that was claimed and not begun, as the worker
// stops.
func (s *starter) returnUnbegun(ctx context.Context, run claim.Run) bool {
	returned := s.runner.Return(s.work, ctx, run, terms.ReleaseDrain, 0)
	if returned {
		s.log.Info("a run that was not begun was returned to the queue, as the worker stops", "run_id", run.ID)
	}
	return returned
}

// runStats returns the runs under way, the oldest first.
func (s *starter) runStats(now time.Time) (runs []RunStats) {
	for _, p := range s.runner.Active() {
		age, inPhase := seconds(now.Sub(p.Claimed)), seconds(now.Sub(p.Since))
		p.Since, p.Claimed, p.Started = p.Since.UTC(), p.Claimed.UTC(), p.Started.UTC()
		runs = append(runs, RunStats{Progress: p, Age: age, InPhase: inPhase})
	}
	return runs
}
