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

// starter executes claimed runs, each in a goroutine of its own that holds the run's slot to the end.
type starter struct {
	cfg    *Config
	log    *slog.Logger
	tally  *tally
	feed   *feed
	budget *budget
	drain  *signal // raised when [Config.MaxRuns] have begun

	turnstile *turnstile
	intake    context.Context // ends when no more is claimed
	work      context.Context // engines live under it
	report    context.Context // the server is told under it; outlasts work by reportGrace
	runner    *runner.Runner
	sockets   *sockets
	queue     *queue
	stopped   atomic.Int64              // runs that the end of work has cut short
	begun     atomic.Int64              // runs whose engine has begun
	lastRun   atomic.Pointer[time.Time] // when a run last came or ended
	done      sync.WaitGroup            // of the goroutines of all runs
}

var _ claim.Prefetcher = (*starter)(nil)

func newStarter(w *Worker, sockets *sockets, queue *queue, turnstile *turnstile, intake, work, report context.Context) *starter {
	s := &starter{
		cfg: &w.cfg, log: w.log, tally: &w.tally, feed: &w.feed, budget: w.budget, drain: w.drain,
		turnstile: turnstile, intake: intake, work: work, report: report, sockets: sockets, queue: queue,
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

// noteRun notes that a run came or ended.
func (s *starter) noteRun() {
	now := time.Now()
	s.lastRun.Store(&now)
}

// underway is a run from its claim to its end.
type underway struct {
	claim.Run
	*starter

	// uncount takes the run off the turnstile's unproven ones. It may be called again.
	uncount func()
	// begin tells a run that was claimed ahead to go on (nil) or to return to the queue (an error).
	// It has room for one of each, so that the loop never waits. It is nil for a run that had a slot
	// from the beginning.
	begin chan error
	over  chan struct{} // closed when the run has ended without a slot
	trial bool          // the run decides whether the engine is well; only its goroutine uses this

	mu      sync.Mutex
	slot    *slots.Slot // nil while there is none
	ended   bool
	settled Settlement // how, once ended
}

func (s *starter) Start(run claim.Run, slot *slots.Slot) { s.launch(run, slot, nil) }

func (s *starter) CanPrefetch() bool {
	takesBack, _ := s.queue.TakesBack()
	return takesBack
}

// Prefetch implements [claim.Prefetcher]: the run's topic is joined and its plan fetched. The dataclip
// is not fetched, since a server may erase it once it was read, and another worker may get the run.
func (s *starter) Prefetch(run claim.Run) claim.Ahead {
	u := s.launch(run, nil, make(chan error, 2))
	u.uncount() // it can still be returned
	return claim.Ahead{Start: u.startAhead, Return: u.returnAhead, Over: u.over}
}

// launch executes a run in a goroutine of its own.
func (s *starter) launch(run claim.Run, slot *slots.Slot, begin chan error) *underway {
	s.turnstile.noteVerified() // the loop starts no run whose token it has refused
	u := &underway{Run: run, starter: s, slot: slot, begin: begin, over: make(chan struct{})}
	u.uncount = sync.OnceFunc(func() { s.turnstile.uncount(run.Group) })
	s.done.Go(func() {
		defer u.uncount()
		settled := runner.Unsettled
		defer func() { u.finish(settled) }() // also after a panic
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
		u.delayFree()
	}
	return outcome.Settled
}

// executeSeated executes the run with a seat on a socket, which it frees at the end.
func (u *underway) executeSeated() runner.Outcome {
	seat := seat{sockets: u.sockets}
	defer seat.free()
	return u.runner.Run(u.work, u.report, &seat, u.Run, u)
}

// announce tells the counters, the subscriptions and the hook how a run has ended.
func (u *underway) announce(outcome runner.Outcome) {
	if u.trial {
		u.turnstile.endTrial()
	}
	u.noteRun()
	if u.work.Err() != nil && (outcome.Err != nil || outcome.Stopped) { // otherwise only its report was left
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
		u.turnstile.noteNotTaken(outcome.Err)
	case outcome.Err == nil:
		u.turnstile.noteTaken()
	}
	u.feed.publish(Event{Kind: kind, RunID: u.ID, Group: u.Group, Result: &result})
	u.callAfterRun(result)
}

// callAfterRun calls the hook. A panic in it harms nothing else.
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

// panicOfHook returns what may be logged of a panic in a hook. Its text may quote secrets of the run,
// and these are no longer known here, so that they could not be replaced.
func panicOfHook(v any) string {
	if err, ok := v.(runtime.Error); ok { // such as an index out of range: it quotes nothing
		return err.Error()
	}
	return fmt.Sprintf("a %T, whose text may have secrets in it; see the stack", v)
}

// delayFree delays the freeing of a slot whose run could not be joined or reported. Otherwise a server
// that refuses the runs it has just given away would be emptied as fast as the network allows.
func (s *starter) delayFree() {
	timer := time.NewTimer(s.cfg.Claim.MinBackoff)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-s.intake.Done(): // nothing is claimed for the slot anyway
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

// freeLocked frees a slot so that the claim loop knows whether its run has finished or was returned.
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
	if u.ended { // without a slot: its plan could not be read, or it was cancelled
		u.freeLocked(slot)
		return
	}
	u.slot = slot
	u.begin <- nil
}

// returnAhead asks for a run that was claimed ahead to be returned.
func (u *underway) returnAhead() {
	if len(u.begin) == 0 { // otherwise the run has yet to read that it is to return
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
	u.turnstile.noteExecuted(began)
	u.uncount()
}

func (u *underway) Unable(cause error) { u.turnstile.trip(&u.turnstile.engine, cause) }

func (u *underway) AwaitEngine(ctx context.Context) (err error) {
	u.trial, err = u.turnstile.awaitEngine(ctx)
	return err
}

// refusedFor is how long a run whose token was refused stays in the queue before anybody gets it, so
// that it does not come right back.
const refusedFor = 3 * time.Second

// refuseToken notes that the token of a run is refused, and returns the run to the queue: another
// worker may accept it.
func (s *starter) refuseToken(run claim.Run, err error) {
	s.turnstile.uncount(run.Group)
	s.turnstile.noteRefusedToken(err)
	level := slog.LevelError
	if refused, ok := errors.AsType[*claim.TokenError](err); ok && (refused.Misfit() || refused.Early()) {
		level = slog.LevelWarn // the trip logs the error
	}
	s.done.Go(func() {
		back := run.ID != "" && s.runner.Return(s.work, s.report, run, terms.ReleasePostpone, refusedFor)
		s.log.Log(s.report, level, "run refused, it will not be started", "run_id", run.ID, "returned", back, "error", err)
	})
}

// returnUnbegun returns a run to the queue that has not begun when the worker stops.
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
