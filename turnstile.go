package phxworker

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"sync"
	"syscall"
	"time"

	"github.com/phxworker/phxworker/claim"
	"github.com/phxworker/phxworker/runner"
)

// ErrUnable says that a worker claims nothing because it could do nothing with the runs:
// its engine cannot execute them, or its key does not fit their tokens. It comes with the
// cause.
var ErrUnable = errors.New("the worker cannot execute runs")

const (
	// mostUnproven is how many runs there may be between their claim and the proof that the
	// engine executes them, as long as it has not shown so lately: all of these may be lost.
	// With more groups it is one a group.
	mostUnproven = 3
	// provenFor is how long the engine is trusted for a run that it executed, and
	// provenAfter how long it must have executed one, if that has not ended well before.
	provenFor   = time.Minute
	provenAfter = 100 * time.Millisecond
	// stuckAfter is how long an engine that is ready takes at most to prepare a run.
	stuckAfter = time.Second
)

// turnstile is the way of all claims to the queue. It lets as many runs in as the worker can
// vouch for: none while a breaker is open, one at a time while one is tried, few while the
// engine has not shown that it can execute them, and else any number.
type turnstile struct {
	queue *queue
	feed  *feed
	log   *slog.Logger
	// preparing returns for how long the engine has prepared the run that waits longest.
	preparing func() time.Duration
	share     int // the most that one claim asks for then

	mu       sync.Mutex
	engine   breaker
	key      breaker
	asked    int           // runs that the claims under way may bring
	unproven int           // runs claimed that the engine may yet be unable to execute
	proven   time.Time     // when a run was last
	wary     bool          // no run was since the engine's breaker was open
	changed  chan struct{} // closed and replaced when more may be let in
	awaited  bool          // somebody may wait for that
}

var _ claim.Claimer = (*turnstile)(nil)

func newTurnstile(w *Worker, queue *queue) *turnstile {
	t := &turnstile{
		queue: queue, feed: &w.feed, log: w.log, changed: make(chan struct{}), share: max(1, mostUnproven/len(w.groups)),
		engine: breaker{name: BreakerEngine, problem: "the engine cannot execute runs", first: 5 * time.Second, most: 5 * time.Minute, opened: make(chan struct{}, 1)},
		key:    breaker{name: BreakerKey, problem: "the tokens of runs cannot be verified", first: time.Minute, most: 30 * time.Minute, opened: make(chan struct{}, 1)},
	}
	if checker, ok := w.cfg.Engine.(runner.Checker); ok {
		t.engine.check = checker.Check
		t.engine.cause, t.engine.since = errUnchecked, time.Now()
	}
	return t
}

// errUnchecked holds back the first claim until the engine was asked.
var errUnchecked = errors.New("the engine has not answered its first check yet")

// Ready implements [claim.Claimer].
func (t *turnstile) Ready() <-chan struct{} {
	room, changed := t.room()
	if room == 0 {
		return changed
	}
	return t.queue.Ready()
}

// isReady reports whether a claim could be put just now.
func (t *turnstile) isReady() bool {
	select {
	case <-t.Ready():
		return true
	default:
		return false
	}
}

// room returns how many runs a group may claim, and what is closed when that may have
// changed.
func (t *turnstile) room() (n int, changed <-chan struct{}) {
	t.mu.Lock()
	n, trusted := t.roomLocked()
	changed, t.awaited = t.changed, t.awaited || n == 0
	t.mu.Unlock()
	// How quickly it prepares runs matters only when there are some, and costs most to ask.
	if trusted && (n > 0 || t.preparing() <= stuckAfter) {
		return anyNumber, changed
	}
	return n, changed
}

// anyNumber is more than any group has slots.
const anyNumber = 1 << 30

// roomLocked returns what room does of an engine that prepares runs slowly, and whether
// it is trusted otherwise.
func (t *turnstile) roomLocked() (n int, trusted bool) {
	switch {
	case t.engine.shut() || t.key.shut():
		return 0, false
	case t.engine.trial || t.key.trial || t.wary:
		return max(0, 1-t.unproven-t.asked), false
	}
	trusted = !t.proven.IsZero() && time.Since(t.proven) < provenFor
	n = mostUnproven - t.unproven - t.asked
	if t.unproven == 0 { // or one group would wait for what others may never get
		n = max(n, 1)
	}
	return min(max(n, 0), t.share), trusted
}

// take reserves what a claim may bring, as much of the demand as there is room for.
func (t *turnstile) take(demand int) int {
	room, _ := t.room()
	t.mu.Lock()
	defer t.mu.Unlock()
	if room != anyNumber {
		room, _ = t.roomLocked() // others may have taken it meanwhile
	}
	demand = min(demand, room)
	t.asked += demand
	return demand
}

// Claim implements [claim.Claimer].
func (t *turnstile) Claim(ctx context.Context, req claim.Request) ([]claim.Run, error) {
	if req.Demand = t.take(req.Demand); req.Demand == 0 {
		return nil, claim.ErrNotReady
	}
	runs, err := t.queue.Claim(ctx, req)
	t.mu.Lock()
	t.asked -= req.Demand
	t.unproven += len(runs)
	t.changeLocked()
	t.mu.Unlock()
	if err == nil && len(runs) == 0 {
		t.nothingToTry()
	}
	return runs, err
}

// leave takes a run out of those that may be lost.
func (t *turnstile) leave() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.unproven--
	t.changeLocked()
}

func (t *turnstile) changeLocked() {
	if t.awaited {
		close(t.changed)
		t.changed, t.awaited = make(chan struct{}), false
	}
}

// prove notes that the engine has executed a run, which it began at the time given.
func (t *turnstile) prove(began time.Time) {
	t.mu.Lock()
	if began.Before(t.engine.tripped) { // that says nothing about the time since
		t.mu.Unlock()
		return
	}
	t.proven, t.wary = time.Now(), false
	t.engine.wait = 0
	t.changeLocked()
	t.mu.Unlock()
	t.close(&t.engine)
}

// verified notes that the key fits.
func (t *turnstile) verified() {
	t.mu.Lock()
	t.key.wait = 0
	t.mu.Unlock()
	t.close(&t.key)
}

// nothingToTry ends the trial of an engine that says that it is well, when there is no run
// to try it with. Until one has shown it, there is one at a time.
func (t *turnstile) nothingToTry() {
	t.mu.Lock()
	ends := t.engine.trial && t.engine.check != nil
	t.wary = t.wary || ends
	t.mu.Unlock()
	if ends {
		t.close(&t.engine)
	}
}

// trip opens a breaker, or opens it again after a trial. What was told already is not told
// again.
func (t *turnstile) trip(b *breaker, cause error) {
	t.mu.Lock()
	if b.shut() && b.told {
		t.mu.Unlock()
		return
	}
	again := b.told
	b.open(cause)
	if b == &t.engine {
		t.proven = time.Time{}
	}
	wait := b.wait
	t.mu.Unlock()
	if again {
		t.log.Warn("still no claims: "+b.problem, "error", cause, "next_trial_in", wait)
		return
	}
	t.log.Error("no more claims: "+b.problem, "error", cause, "next_trial_in", wait)
	t.feed.publish(Event{Kind: EventUnable, Err: cause})
}

// close lets claims through again, as far as this breaker is concerned.
func (t *turnstile) close(b *breaker) {
	t.mu.Lock()
	told := b.told
	if b.cause != nil {
		b.cause, b.trial, b.told = nil, false, false
		t.changeLocked()
	}
	t.mu.Unlock()
	if told {
		t.log.Info("claims are made again", "breaker", b.name)
		t.feed.publish(Event{Kind: EventAble})
	}
}

// standing returns the breakers as they are.
func (t *turnstile) standing() []BreakerStats {
	t.mu.Lock()
	defer t.mu.Unlock()
	return []BreakerStats{t.engine.stats(), t.key.stats()}
}

// err returns why no claim is let through; nil if one would be, or it is not known yet.
func (t *turnstile) err() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, b := range []*breaker{&t.engine, &t.key} {
		if b.shut() && b.told {
			return fmt.Errorf("%w: %w", ErrUnable, b.cause)
		}
	}
	return nil
}

// checkFirst asks the engine whether it can execute runs at all. The error is one that
// does not pass.
func (t *turnstile) checkFirst(ctx context.Context) error {
	if t.engine.check == nil {
		return nil
	}
	err := t.engine.check(ctx)
	if isPermanent(err) {
		return err
	}
	switch {
	case ctx.Err() != nil:
	case err == nil:
		t.close(&t.engine)
	default:
		t.trip(&t.engine, err)
	}
	return nil //nolint:nilerr // it is the breaker's now
}

// isPermanent reports whether an engine says that somebody must change what it was told to
// work with, so that there is no use in asking again.
func isPermanent(err error) bool {
	return errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) || errors.Is(err, syscall.ENOTDIR)
}

// mend tries whenever a breaker was open for its time whether it may be closed, until ctx
// ends.
func (t *turnstile) mend(ctx context.Context, b *breaker) {
	for {
		select {
		case <-b.opened:
		case <-ctx.Done():
			return
		}
		for t.rest(ctx, b) && !t.try(ctx, b) {
		}
	}
}

// rest waits until a breaker is due for a trial, and reports whether it is.
func (t *turnstile) rest(ctx context.Context, b *breaker) bool {
	t.mu.Lock()
	next := b.next
	t.mu.Unlock()
	timer := time.NewTimer(time.Until(next))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// try asks the engine if that is what it is about, which costs no run; if it says that it is
// well, one run is let in.
func (t *turnstile) try(ctx context.Context, b *breaker) bool {
	var err error
	if b.check != nil {
		err = b.check(ctx)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case ctx.Err() != nil, b.cause == nil: // the worker stops, or it was proven wrong meanwhile
		return true
	case err != nil:
		b.postpone(err)
		return false
	}
	b.trial = true
	t.changeLocked()
	return true
}
