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

// Loop claims runs for one slot group; the package comment says when.
// Its methods may be called concurrently.
type Loop struct {
	cfg        Config
	log        *slog.Logger
	request    Request        // of every claim; only Demand changes
	wakeups    chan time.Time // capacity one: wake-ups coalesce, and the time of the first one stays
	resumed    chan struct{}  // capacity one
	asks       chan *ask
	paused     atomic.Bool
	prefetcher Prefetcher // nil when no run is claimed ahead

	mu    sync.Mutex // no other lock is taken under it
	stats Stats

	// Only the goroutine of Run uses the fields below.

	backoff    *backoff.ExponentialBackOff // between claims that bring nothing
	due        time.Time                   // when the next claim is due; zero is at once
	resting    bool                        // before due, only a wake-up or a finished run makes a claim
	finished   uint64                      // how many runs had finished when the rest began
	woken      time.Time                   // when the wake-up came that the next claim answers
	reserved   []*slots.Slot               // for the claim that is being made
	held       []Run                       // claimed, and waiting for a slot
	claimError string                      // of the last claim, "" if it was answered
	gateError  string                      // of the last question to the gate, "" if it was open
	seen       map[string]int              // how often each run came, by id
	asked      *ask                        // the claim that a caller of Claim waits for; nil if nobody does
	ahead      ahead
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
		backoff: backoff.NewExponentialBackOff(backoff.WithInitialInterval(cfg.MinBackoff), backoff.WithMaxInterval(cfg.MaxBackoff),
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

// Each wait between claims that bring nothing is longer than the one before by the factor growth,
// and random by the share jitter either way.
const (
	growth = 1.15
	jitter = 0.1
)

// Wake tells the loop that there may be a run now. It never blocks and may be called at any time,
// also before Run and after it.
func (l *Loop) Wake() {
	coalesced := uint64(0)
	select {
	case l.wakeups <- time.Now():
	default:
		coalesced = 1
	}
	l.count(func(s *Stats) { s.Wakes++; s.Coalesced += coalesced })
}

// Run claims until intake ends. It then waits for the claim in flight, which goes on under work.
// Runs that have no slot by then are returned to the queue; a run that the server does not take is
// started as soon as a slot is freed. When work ends, Run gives all of that up and returns. Run may
// be called again after it has returned, but never twice at once.
func (l *Loop) Run(intake, work context.Context) {
	defer l.enter(Idle)
	l.hasten()
	for intake.Err() == nil && work.Err() == nil {
		l.startHeld()
		state := l.decide()
		l.enter(state)
		switch {
		case state == Claiming:
			o := l.turn(intake, work)
			l.schedule(o)
			if o != unsent { // an unsent claim is made once the Claimer is ready
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

// decide returns what the loop does now. A claim that somebody asked for is made in spite of a
// pause, a rest or a back-off.
func (l *Loop) decide() State {
	switch {
	case l.asked == nil && l.paused.Load():
		return Paused
	case !l.hasRoom():
		return Full
	case !l.isReady():
		return Unready
	case l.asked != nil || l.due.IsZero() || !time.Now().Before(l.due):
		return Claiming
	case l.resting:
		return Resting
	}
	return Waiting
}

// hasRoom reports whether the loop may claim a run: for an open slot, or ahead of one.
func (l *Loop) hasRoom() bool {
	return len(l.held) == 0 && (l.cfg.Pool.Counts().Open > 0 || l.mayPrefetch())
}

// isReady reports whether the Claimer can send a claim.
func (l *Loop) isReady() bool {
	select {
	case <-l.cfg.Claimer.Ready():
		return true
	default:
		return false
	}
}

// wait waits in a state until something may have changed it. The caller decides anew afterwards,
// since several things may have happened meanwhile.
func (l *Loop) wait(intake, work context.Context, state State) {
	var due, wakeups <-chan time.Time
	var ready <-chan struct{}
	switch state {
	case Unready:
		ready = l.cfg.Claimer.Ready()
	case Waiting, Resting: // in other states a wake-up stays in its channel, for it changes nothing
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
	case <-ready:
	case at := <-wakeups:
		// The back-off goes on growing: the server wakes every worker for one run, and all but
		// one of them find nothing.
		l.woken = at
		l.due, l.resting = time.Time{}, false
	case <-l.cfg.Pool.Freed():
		// A returned run ends no rest: the server would only give it again.
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

// hasten makes the next claim due at once, and starts the back-off over.
func (l *Loop) hasten() {
	l.due, l.resting = time.Time{}, false
	l.backoff.Reset()
}

// schedule sets when the next claim is due, after a turn.
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
		l.due = time.Now().Add(min(max(l.backoff.NextBackOff(), l.cfg.MinBackoff), l.cfg.MaxBackoff))
	}
}

// startRemaining returns the runs that have no slot after the last claim. It starts those that the
// server does not take, as slots are freed. Each run that is left when work ends is logged, for
// the server will only find it lost.
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

// Pause keeps the loop from claiming. Runs under way go on, and so does the claim in flight. It may
// be called at any time.
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

// Claim makes the loop claim once as soon as it can, also when it is paused or in its back-off, and
// reports whether that brought a run. It waits for a claim that is in flight and for the Claimer to
// be ready. When no slot is open, it claims nothing and returns false.
//
// The error is the cause of the end of ctx, which must end when the loop does. A claim that was not
// sent by then is never sent; a claim in flight goes on.
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

// ask is a claim that a caller of Claim waits for.
type ask struct {
	ctx     context.Context // the caller's
	brought chan bool       // capacity one
}

// answer tells the caller of Claim, if there is one, whether its claim brought a run.
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
		// The wake-up waited for this worker, not for the server: it must not count in WakeToStart.
		l.takeWakeUp()
		l.woken = time.Time{}
	}
}

// takeWakeUp takes the wake-up out of its channel, if there is one.
func (l *Loop) takeWakeUp() {
	select {
	case l.woken = <-l.wakeups:
	default:
	}
}

// takeSignals takes every signal that came before the claim which is made now: this claim is the
// answer to all of them.
func (l *Loop) takeSignals() {
	l.takeWakeUp()
	select {
	case <-l.cfg.Pool.Freed():
		l.backoff.Reset()
	default:
	}
	select {
	case <-l.resumed:
	default:
	}
}
