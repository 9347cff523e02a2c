package claim

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

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
	asks    chan ask
	paused  atomic.Bool
	running atomic.Bool
	tally   tally

	// What is below is used by Run's goroutine only.

	pace     *pace
	woken    time.Time     // when the wake-up came that the next claim answers
	reserved []*slots.Slot // for the claim that is being made
	held     []Run         // claimed at the server, waiting for a slot
	failure  string        // what the last claim failed of, "" if it did not
	closed   string        // what the gate said last, "" if it was open
	seen     sightings
	ahead    ahead
}

// NewLoop returns a loop that does nothing until [Loop.Run].
func NewLoop(cfg Config) *Loop {
	cfg = cfg.withDefaults()
	l := &Loop{
		cfg:     cfg,
		log:     cfg.Logger,
		wakeups: make(chan time.Time, 1),
		resumed: make(chan struct{}, 1),
		asks:    make(chan ask),
		pace:    newPace(cfg.MinBackoff, cfg.MaxBackoff),
	}
	l.paused.Store(cfg.Paused)
	if cfg.Pool != nil { // if not, Run says so
		group := cfg.Pool.Group()
		l.log = cfg.Logger.With("group", group.Name)
		l.request.Queues = group.Queues
	}
	if cfg.WorkerName != "" {
		l.request.WorkerName = &l.cfg.WorkerName
	}
	return l
}

// Wake tells the loop that there may be a run now. It never blocks, and may be
// called by any goroutine at any time, before Run and after it too.
func (l *Loop) Wake() {
	l.tally.wakes.Add(1)
	select {
	case l.wakeups <- time.Now():
	default:
		l.tally.coalesced.Add(1)
	}
}

// Stats returns what the loop has done so far. It may be called at any time; the
// numbers of a claim that is being made may be there in part.
func (l *Loop) Stats() Stats { return l.tally.read() }

// Run claims until intake ends, then lets the claim in flight end, under work,
// and gives back, or starts, the runs it brings and those that wait for a slot. The end of work
// ends that as well. It returns nil when either has happened, a [*ConfigError]
// if the loop cannot work, and [ErrRunning] if it is running already. It has no
// goroutine of its own that could outlive it.
func (l *Loop) Run(intake, work context.Context) error {
	if field := l.cfg.missing(); field != "" {
		return &ConfigError{Field: field}
	}
	if !l.running.CompareAndSwap(false, true) {
		return ErrRunning
	}
	defer l.running.Store(false)

	l.pace.reset()
	last := nothing
	for intake.Err() == nil && work.Err() == nil {
		l.forgetSignals(last)
		if l.paused.Load() {
			last = l.pausedTurn()
		} else {
			last = l.turn(intake, work)
		}
		switch last {
		case brought:
			l.pace.reset()
		case nothing:
			l.pause(intake, work)
		case full, paused:
			l.await(intake, work)
		case exhausted:
			l.recover(intake, work)
		}
	}
	l.startRest(work)
	return nil
}

// forgetSignals takes the signals of what the next turn will see by itself: a
// claim that is sent after a wake-up answers it.
func (l *Loop) forgetSignals(last outcome) {
	select {
	case at := <-l.wakeups:
		l.pace.reset()
		if last != full && last != paused { // else it waited for something else than the server
			l.woken = at
		}
	default:
	}
	select {
	case <-l.cfg.Pool.Freed():
		l.pace.reset()
	default:
	}
	select {
	case <-l.resumed:
	default:
	}
}

// pause waits for the back-off, or less if there is a reason to claim.
func (l *Loop) pause(intake, work context.Context) {
	timer := time.NewTimer(l.pace.next())
	defer timer.Stop()
	select {
	case <-timer.C:
	case at := <-l.wakeups:
		l.woken = at
		l.pace.reset()
	case <-l.cfg.Pool.Freed():
		l.pace.reset()
	case a := <-l.asks:
		l.answer(a, intake, work)
	case <-l.resumed:
	case <-intake.Done():
	case <-work.Done():
	}
}

// await waits until the group has room, or is resumed. There is no back-off, and no
// wake-up ends it: without a slot, or the leave to fill it, there is nothing that
// could be done about either.
func (l *Loop) await(intake, work context.Context) {
	tooLong, stop := l.tooLong()
	defer stop()
	select {
	case <-l.cfg.Pool.Freed():
		l.pace.reset()
	case <-tooLong:
		l.letGo()
	case <-l.over():
	case a := <-l.asks:
		l.answer(a, intake, work)
	case <-l.resumed:
	case <-intake.Done():
	case <-work.Done():
	}
}

// recover waits after a claim that brought only runs which come back again and
// again: for the longest pause, or for a reason to hope for others. That a run was
// given back is none.
func (l *Loop) recover(intake, work context.Context) {
	timer := time.NewTimer(l.cfg.MaxBackoff)
	defer timer.Stop()
	finished := l.cfg.Pool.Finished()
	for l.rest(timer.C, finished, intake, work) {
	}
	l.pace.reset()
}

// rest waits for one thing to happen, and reports whether the loop is to rest on.
func (l *Loop) rest(enough <-chan time.Time, finished uint64, intake, work context.Context) bool {
	l.forgetAhead()
	tooLong, stop := l.tooLong()
	defer stop()
	select {
	case <-l.cfg.Pool.Freed():
		return l.cfg.Pool.Finished() == finished && len(l.held) == 0 && l.ahead.run == nil
	case <-tooLong:
		l.letGo()
		return true
	case <-l.over():
		return true
	case <-enough:
	case at := <-l.wakeups:
		l.woken = at
	case a := <-l.asks:
		l.answer(a, intake, work)
	case <-l.resumed:
	case <-intake.Done():
	case <-work.Done():
	}
	return false
}

// startRest starts the runs that are held after the last claim, as slots are
// freed, and the one that was claimed ahead, should it not go back. What is left when
// work ends is lost to the server's time-out, so it is not passed over in silence.
func (l *Loop) startRest(work context.Context) {
	l.giveBackHeld(work)
	for l.startHeld(); (len(l.held) > 0 || l.ahead.run != nil) && work.Err() == nil; l.startHeld() {
		tooLong, stop := l.tooLong()
		select {
		case <-l.cfg.Pool.Freed():
		case <-tooLong:
			l.letGo()
		case <-l.over():
		case <-work.Done():
		}
		stop()
	}
	for _, run := range l.held {
		l.log.Error("claimed run given up: the worker stopped before a slot was free", "run_id", run.ID)
	}
	clear(l.held)
	l.held = l.held[:0]
}
