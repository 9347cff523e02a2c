package claim

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/phxworker/phxworker/slots"
)

// Loop claims runs for one slot group. See the package comment for when it does.
// Its methods may be called concurrently.
type Loop struct {
	cfg     Config
	log     *slog.Logger
	request Request        // of every claim; only Demand changes
	wakeups chan time.Time // capacity one: wake-ups coalesce, the first one's time stays
	resumed chan struct{}  // capacity one
	asks    chan *ask
	paused  atomic.Bool
	// prefetcher is nil when no run is claimed ahead.
	prefetcher Prefetcher

	mu    sync.Mutex // a leaf
	stats Stats

	// What is below is used by Run's goroutine only.

	pause    *backoff.ExponentialBackOff // between claims that bring nothing
	due      time.Time                   // when the next claim is to be made, if there is no reason to hurry
	resting  bool                        // until then only a run that finishes is a reason, or a wake-up
	finished uint64                      // runs, when it began to rest
	unready  <-chan struct{}             // the Claimer's; nil when it is ready
	woken    time.Time                   // when the wake-up came that the next claim answers
	reserved []*slots.Slot               // for the claim that is being made
	held     []Run                       // claimed at the server, waiting for a slot
	failure  string                      // what the last claim failed of, "" when all is well
	closed   string                      // the same of the gate
	seen     map[string]int              // how often each run came
	asked    *ask                        // the claim that somebody wants now, nil for nobody
	ahead    ahead
}

// NewLoop returns a loop that does nothing until [Loop.Run].
func NewLoop(cfg Config) *Loop {
	cfg.Options = cfg.WithDefaults()
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	group := cfg.Pool.Group()
	l := &Loop{
		cfg:     cfg,
		log:     cfg.Logger.With("group", group.Name),
		request: Request{Queues: group.Queues},
		wakeups: make(chan time.Time, 1),
		resumed: make(chan struct{}, 1),
		asks:    make(chan *ask),
		stats:   Stats{State: Idle},
		seen:    make(map[string]int),
		pause: backoff.NewExponentialBackOff(backoff.WithInitialInterval(cfg.MinBackoff), backoff.WithMaxInterval(cfg.MaxBackoff),
			backoff.WithMultiplier(growth), backoff.WithRandomizationFactor(jitter), backoff.WithMaxElapsedTime(0)),
	}
	l.paused.Store(cfg.Manual)
	if cfg.Prefetch {
		l.prefetcher, _ = cfg.Starter.(Prefetcher)
	}
	if cfg.WorkerName != "" {
		l.request.WorkerName = &l.cfg.WorkerName
	}
	return l
}

// Each pause between claims that bring nothing is longer than the one before by growth, and
// off by jitter either way.
const (
	growth = 1.15
	jitter = 0.1
)

// Wake tells the loop that there may be a run now. It never blocks, and may be
// called by any goroutine at any time, before Run and after it too.
func (l *Loop) Wake() {
	coalesced := uint64(0)
	select {
	case l.wakeups <- time.Now():
	default:
		coalesced = 1
	}
	l.count(func(s *Stats) { s.Wakes++; s.Coalesced += coalesced })
}

// Run claims until intake ends, then lets the claim in flight end, under work,
// and returns, or starts, the runs it brings and those that wait for a slot. The end of work
// ends that as well. It has no goroutine of its own that could outlive it. It may be called
// again when it has returned, and not before: two of them would claim twice as often.
func (l *Loop) Run(intake, work context.Context) {
	defer l.enter(Idle)
	l.schedule(brought)
	for intake.Err() == nil && work.Err() == nil {
		l.startHeld()
		state := l.decide()
		l.enter(state)
		switch {
		case state == Claiming:
			o := l.turn(intake, work)
			l.schedule(o)
			if o != unsent { // else it is put when the Claimer is ready
				l.answer(o)
			}
		case state == Full && l.asked != nil:
			l.answer(undone)
		default:
			l.wait(intake, work, state)
		}
	}
	l.startRemaining(work)
}

// decide returns what the loop does now. Whoever asks for a claim does not care about
// pauses of any kind.
func (l *Loop) decide() State {
	l.unready = l.cfg.Claimer.Ready()
	select {
	case <-l.unready:
		l.unready = nil
	default:
	}
	switch {
	case l.asked == nil && l.paused.Load():
		return Paused
	case !l.hasRoom():
		return Full
	case l.unready != nil:
		return Unready
	case l.asked != nil || l.due.IsZero() || !time.Now().Before(l.due):
		return Claiming
	case l.resting:
		return Resting
	}
	return Waiting
}

// hasRoom reports whether there is a slot to claim for, or one to be claimed ahead of.
func (l *Loop) hasRoom() bool {
	return len(l.held) == 0 && (l.cfg.Pool.Counts().Open > 0 || l.mayPrefetch())
}

// wait waits for whatever may change what the loop does. What that is, is decided
// afterwards: meanwhile, anything may have happened.
func (l *Loop) wait(intake, work context.Context, state State) {
	var due <-chan time.Time
	var wakeups <-chan time.Time // stay in their channel while nothing can be done about them
	if state == Waiting || state == Resting {
		timer := time.NewTimer(time.Until(l.due))
		defer timer.Stop()
		due, wakeups = timer.C, l.wakeups
	}
	asks, gone := l.asks, (<-chan struct{})(nil)
	if l.asked != nil {
		asks, gone = nil, l.asked.ctx.Done()
	}
	select {
	case <-due:
	case <-l.unready:
	case at := <-wakeups:
		// The pace stays as it is: every worker is woken for one run, and all but one of
		// them find nothing.
		l.woken = at
		l.due, l.resting = time.Time{}, false
	case <-l.cfg.Pool.Freed():
		// A returned run does not count: there is nothing new to be had for it.
		if !l.resting || l.cfg.Pool.Finished() != l.finished {
			l.hasten()
		}
	case <-l.ahead.late:
		l.returnAhead()
	case <-l.ahead.Over:
	case l.asked = <-asks:
	case <-gone:
		l.asked = nil
	case <-l.resumed:
		l.due = time.Time{}
	case <-intake.Done():
	case <-work.Done():
	}
}

// hasten lets the loop claim at once, and makes the next pause the shortest again.
func (l *Loop) hasten() {
	l.due, l.resting = time.Time{}, false
	l.pause.Reset()
}

// schedule says when the loop may claim again, after a turn.
func (l *Loop) schedule(o outcome) {
	switch o {
	case brought:
		l.hasten()
	case exhausted:
		l.hasten()
		l.resting, l.finished = true, l.cfg.Pool.Finished()
		l.due = time.Now().Add(l.cfg.MaxBackoff)
	case nothing:
		l.resting = false
		// The library's jitter goes beyond both ends.
		l.due = time.Now().Add(min(max(l.pause.NextBackOff(), l.cfg.MinBackoff), l.cfg.MaxBackoff))
	case undone, unsent:
	}
}

// startRemaining starts the runs that are held after the last claim, as slots are
// freed, and the one that was claimed ahead, should it not go back. What is left when
// work ends is lost to the server's time-out, so it is not passed over in silence.
func (l *Loop) startRemaining(work context.Context) {
	l.returnHeld(work)
	for l.startHeld(); (len(l.held) > 0 || l.ahead.Over != nil) && work.Err() == nil; l.startHeld() {
		select {
		case <-l.cfg.Pool.Freed():
		case <-l.ahead.late:
			l.returnAhead()
		case <-l.ahead.Over:
		case <-work.Done():
		}
	}
	for _, run := range l.held {
		l.log.Error("claimed run given up: the worker stopped before a slot was free", "run_id", run.ID)
	}
	l.held = nil
}

// Pause stops the loop from claiming; runs under way go on, and the claim in flight
// is waited for. It may be called at any time.
func (l *Loop) Pause() { l.paused.Store(true) }

// Resume ends a pause.
func (l *Loop) Resume() {
	l.paused.Store(false)
	select {
	case l.resumed <- struct{}{}:
	default:
	}
}

// Paused reports whether the loop is paused.
func (l *Loop) Paused() bool { return l.paused.Load() }

// Claim makes the loop put one claim as soon as it can, also when it is paused or would
// wait, and reports whether it brought a run. It puts none when no slot is open. A claim
// that is in flight already is waited for first, and so is a Claimer that is not ready.
//
// The error is the cause of the end of ctx, which must end when the loop does. What was
// not sent by then never will be; a claim that is in flight goes on.
func (l *Loop) Claim(ctx context.Context) (bool, error) {
	a := &ask{ctx: ctx, brought: make(chan bool, 1)}
	select {
	case l.asks <- a:
	case <-ctx.Done():
		return false, context.Cause(ctx)
	}
	select {
	case brought := <-a.brought:
		return brought, nil
	case <-ctx.Done():
		return false, context.Cause(ctx)
	}
}

// ask is a claim that somebody wants now.
type ask struct {
	ctx     context.Context // of who wants it
	brought chan bool       // capacity one
}

// answer tells whoever has asked for a claim, if somebody has, what it came to.
func (l *Loop) answer(o outcome) {
	if l.asked != nil {
		l.asked.brought <- o == brought || o == exhausted
		l.asked = nil
	}
}

// enter is the only place where the state changes.
func (l *Loop) enter(next State) {
	var last State
	l.count(func(s *Stats) { last, s.State = s.State, next })
	if next != last && (last == Full || last == Paused) {
		// The claim that follows was not held up by the server, so it answers no wake-up.
		l.takeWakeUp()
		l.woken = time.Time{}
	}
}

// takeWakeUp takes the wake-up that is there, if one is.
func (l *Loop) takeWakeUp() {
	select {
	case l.woken = <-l.wakeups:
	default:
	}
}

// forgetSignals takes the signals of what the next claim will see by itself: one that
// is sent after a wake-up answers it.
func (l *Loop) forgetSignals() {
	l.takeWakeUp()
	select {
	case <-l.cfg.Pool.Freed():
		l.pause.Reset()
	default:
	}
	select {
	case <-l.resumed:
	default:
	}
}
