package phxworker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/phxworker/phxworker/claim"
	"github.com/phxworker/phxworker/runner"
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

// underway is a run that is not over.
type underway struct {
	claim.Run

	group  string
	cancel context.CancelCauseFunc
	// proven is called when the run is no longer one that may be lost for want of an engine.
	proven func()
	// trial is set while the run decides whether the engine is well; guarded by starter.mu.
	trial bool
	// started is when its engine began; guarded by starter.mu.
	started time.Time
}

func newUnderway(run claim.Run, group string) *underway {
	return &underway{Run: run, group: group, proven: func() {}}
}

var _ claim.Starter = (*starter)(nil)

func newStarter(w *Worker, further *sockets, queue *queue, turnstile *turnstile, intake, work, report context.Context) *starter {
	s := &starter{
		maxRuns: w.cfg.MaxRuns, minBackoff: w.cfg.MinBackoff, afterRun: w.cfg.AfterRun, log: w.log,
		tally: &w.tally, feed: &w.feed, budget: w.budget, drain: w.drain,
		turnstile: turnstile, intake: intake, work: work, report: report, sockets: further, queue: queue, active: make(map[string]*underway), lastRun: time.Now(),
	}
	s.runner = runner.New(runner.Config{
		Engine: w.cfg.Engine, Middleware: append([]Middleware{s.begun}, w.cfg.Middleware...),
		Limits: w.cfg.Limits, Version: w.cfg.Version, MessageTimeout: w.cfg.MessageTimeout,
		LogsAtMostOnce: w.cfg.LogsAtMostOnce, BatchLogs: w.cfg.BatchLogs, Spool: w.cfg.Spool, Logger: w.log,
		Accept: w.cfg.Accept, RefuseUnsuitable: w.cfg.RefuseUnsuitable, MaxAttempts: w.cfg.MaxAttempts,
		Releaser: queue, Extensions: w.extensions, Health: s,
	})
	return s
}

// Start implements [claim.Starter].
func (s *starter) Start(run claim.Run, slot *slots.Slot) {
	s.turnstile.verified()
	this := newUnderway(run, slot.Group().Name)
	this.proven = sync.OnceFunc(func() { s.turnstile.leave(this.group) })
	s.done.Go(func() {
		defer this.proven()
		settled := runner.Unsettled
		defer func() { giveBackSlot(slot, settled) }() // whatever ends the goroutine
		settled = s.execute(this, nil)
	})
}

// execute takes a run to its end. It is held back before it begins, if there is a
// channel to say when.
func (s *starter) execute(this *underway, begin <-chan error) Settlement {
	work, cancel := context.WithCancelCause(s.work)
	defer cancel(nil)
	this.cancel = cancel
	if !s.begin(this) {
		s.log.Error("the server gave a run that this worker is executing already; not executed twice", "run_id", this.ID, "group", this.group)
		s.refuse(this)
		return runner.Unsettled
	}
	over := false
	defer func() {
		if !over {
			s.end(this)
			s.log.Error("a claimed run was not settled; this is a mistake in the worker", "run_id", this.ID, "group", this.group)
		}
	}()
	s.feed.publish(Event{Kind: EventClaimed, RunID: this.ID, Group: this.group})
	place := seat{sockets: s.sockets}
	defer place.free()
	outcome := s.runner.Run(work, s.report, &place, runner.Claimed{
		ID: this.ID, Token: this.Token, At: this.Claimed, Lease: this.Lease,
		Attempt: this.Attempt, Begin: begin, Labels: []slog.Attr{slog.String("group", this.group)},
	})
	over = true
	place.free()
	s.settle(this, outcome)
	if outcome.Settled == runner.Undelivered || !outcome.Joined {
		s.pause()
	}
	return outcome.Settled
}

// refuse gives a run back that is not executed, if the server takes it: it was
// taken from this worker, which has not noticed yet, and another one may have it.
func (s *starter) refuse(this *underway) {
	defer s.pause()
	s.mu.Lock()
	active := s.active[this.ID]
	s.mu.Unlock()
	if active == nil || active.Token != this.Token { // else it is the very run that is executed
		s.queue.handBack(s.report, this.Run, runner.ReleasePostpone, refusedFor)
	}
}

// refusedFor is how long nobody gets a run that this worker was given twice: it is
// about to notice that the first one is no longer its own.
const refusedFor = 3 * time.Second

// giveBackSlot tells the claim loop whether a run has finished, or has only gone
// back to where it came from.
func giveBackSlot(slot *slots.Slot, settled Settlement) {
	if settled.GivenBack() {
		slot.Return()
		return
	}
	slot.Release()
}

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
		s.feed.publish(Event{Kind: EventStarted, RunID: run.ID, Group: this.group})
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

// refused takes note of a run whose token is no good, and gives it back, if the server takes
// it: another worker may find nothing wrong with it.
func (s *starter) refused(group string, run claim.Run, err error) {
	s.turnstile.leave(group)
	level := slog.LevelError
	if refused, ok := errors.AsType[*claim.TokenError](err); ok && refused.Misfit() {
		level = slog.LevelWarn // the error is that of the key
		s.turnstile.trip(&s.turnstile.key, fmt.Errorf("the public key of the worker (WORKER_LIGHTNING_PUBLIC_KEY) does not fit the server's: %w", err))
	}
	s.done.Go(func() {
		back := run.ID != "" && s.queue.handBack(s.report, run, runner.ReleasePostpone, refusedFor)
		s.log.Log(s.report, level, "run refused, it will not be started", "run_id", run.ID, "given_back", back, "error", err)
	})
}

// begin reports whether the run was not under way yet.
func (s *starter) begin(this *underway) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.active[this.ID] != nil {
		return false
	}
	s.active[this.ID] = this
	s.lastRun = time.Now()
	return true
}

// end returns when the run had begun to execute.
func (s *starter) end(this *underway) (started time.Time) {
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
	return this.group, nil
}

// underway returns the runs under way, the oldest first.
func (s *starter) underway() []RunStats {
	var runs []RunStats
	for _, progress := range s.runner.Active() {
		s.mu.Lock()
		if this := s.active[progress.RunID]; this != nil { // else it has just ended
			runs = append(runs, RunStats{Progress: progress, Group: this.group, Claimed: this.Claimed, Started: this.started})
		}
		s.mu.Unlock()
	}
	slices.SortFunc(runs, byAge)
	return runs
}

// wait returns when all runs are over. No run may be started any more.
func (s *starter) wait() { s.done.Wait() }
