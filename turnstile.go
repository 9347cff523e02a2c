package phxworker

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"runtime/debug"
	"sync"
	"syscall"
	"time"

	"github.com/phxworker/phxworker/claim"
	"github.com/phxworker/phxworker/runner"
)

// ErrUnable says that a worker claims nothing because it could do nothing with the runs:
// its engine cannot execute them, its key does not fit their tokens, or the server does not take
// them from it. It comes with the cause.
var ErrUnable = errors.New("the worker cannot execute runs")

const (
	// mostUnproven is how many runs may be claimed and not executed yet, while the engine has
	// executed none lately: an engine that is ill may lose all of them. The groups share
	// them; each has one at least.
	mostUnproven = 3
	// provenFor is how long the engine is trusted for a run that it executed.
	provenFor = 10 * time.Second
	// waitingMost is the longest time between trials while runs wait for one, which a trial
	// costs nothing.
	waitingMost = 30 * time.Second
	// checkTimeout bounds a check, which may install something.
	checkTimeout = 2 * time.Minute
	// mostRefused is how many runs in a row may be refused, by the server or for their tokens, before no
	// more are claimed: one alone may have a reason of its own.
	mostRefused = 3
	// anyNumber is more than any group has slots.
	anyNumber = 1 << 30
)

// turnstile says how many runs may be claimed: none while a breaker is open, one at a time
// while one is tried, few while the engine has not shown that it can execute them, and else any
// number.
type turnstile struct {
	feed  *feed
	log   *slog.Logger
	check func(ctx context.Context) error // says whether there is any use in a trial of the engine; nil if only a run can tell
	share int                             // of mostUnproven, for each group

	mu       sync.Mutex
	engine   breaker
	key      breaker
	server   breaker
	badKeys  int            // tokens in a row that were no good
	refused  int            // runs in a row that the server did not take from the worker
	unproven map[string]int // by group: runs claimed, or asked for, that the engine may yet be unable to execute
	total    int            // of these
	proven   time.Time      // when a run was last
	waiting  int            // runs that could not be prepared and wait for the engine
	trying   bool           // one of them is the trial
	changed  chan struct{}  // closed and replaced when more may be admitted, or a trial is due at another time
}

func newTurnstile(w *Worker) *turnstile {
	t := &turnstile{
		feed: &w.feed, log: w.log, share: max(1, mostUnproven/len(w.cfg.Groups)),
		changed: make(chan struct{}), unproven: make(map[string]int),
		engine: breaker{name: BreakerEngine, problem: "the engine cannot execute runs", first: 5 * time.Second, most: 5 * time.Minute},
		key:    breaker{name: BreakerKey, problem: "the tokens of runs cannot be verified", first: time.Minute, most: 30 * time.Minute},
		server: breaker{name: BreakerServer, problem: "the server does not take the runs of this worker", first: time.Minute, most: 30 * time.Minute},
	}
	if checker, ok := w.cfg.Engine.(runner.Checker); ok {
		t.check = checker.Check
		t.engine.state, t.engine.cause, t.engine.since = unchecked, errUnchecked, time.Now()
	}
	return t
}

// errUnchecked holds back the first claim until the engine was asked.
var errUnchecked = errors.New("the engine has not answered its first check yet")

// room returns how many runs a group may claim, and what is closed when that may be more.
func (t *turnstile) room(group string) (n int, changed <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.roomLocked(group), t.changed
}

func (t *turnstile) roomLocked(group string) int {
	switch {
	case t.engine.isShut(), t.key.isShut(), t.server.isShut(), t.engine.state == onTrial && t.waiting > 0:
		return 0
	case t.engine.state == onTrial, t.key.state == onTrial, t.server.state == onTrial:
		return max(0, 1-t.total)
	case t.trustsLocked():
		return anyNumber
	}
	return max(0, t.share-t.unproven[group])
}

// trustsLocked reports whether the engine has shown lately that it executes runs.
func (t *turnstile) trustsLocked() bool {
	return !t.proven.IsZero() && time.Since(t.proven) < provenFor
}

// admit returns how many of the runs demanded may be claimed now, and whether one of them is a
// trial. They count as unproven until [turnstile.answered].
func (t *turnstile) admit(group string, demand int) (n int, trial bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n = min(demand, t.roomLocked(group))
	t.countLocked(group, n)
	return n, t.engine.state == onTrial || t.key.state == onTrial || t.server.state == onTrial
}

// answered says how many runs came of those that were admitted, which count on. An engine that
// says that it is well is taken at its word when there is no run to try it with.
func (t *turnstile) answered(group string, admitted, came int, trial bool) {
	t.mu.Lock()
	t.countLocked(group, came-admitted)
	if came > 0 && t.server.state == onTrial { // its end decides, or the next trial
		t.server.state = opened
		t.server.postpone(t.server.cause)
		t.changeLocked()
	}
	untried := trial && came == 0 && t.engine.state == onTrial && t.check != nil
	t.mu.Unlock()
	if untried {
		t.close(&t.engine)
	}
}

func (t *turnstile) countLocked(group string, n int) {
	t.unproven[group] += n
	t.total += n
	if n < 0 {
		t.changeLocked()
	}
}

func (t *turnstile) changeLocked() {
	close(t.changed)
	t.changed = make(chan struct{})
}

// forget takes a run out of those that may be lost.
func (t *turnstile) forget(group string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.countLocked(group, -1)
}

// prove notes that the engine executes a run, which it began to prepare at the time given.
func (t *turnstile) prove(began time.Time) {
	t.mu.Lock()
	if began.Before(t.engine.tripped) { // before it was found to be ill: that says nothing about now
		t.mu.Unlock()
		return
	}
	if !t.trustsLocked() {
		t.changeLocked()
	}
	t.proven = time.Now()
	if t.proven.Sub(t.engine.tripped) > t.engine.most { // one that comes and goes keeps its long wait
		t.engine.wait = 0
	}
	t.mu.Unlock()
	t.close(&t.engine)
}

// verified notes that the key fits.
func (t *turnstile) verified() {
	t.mu.Lock()
	t.key.wait, t.badKeys = 0, 0
	t.mu.Unlock()
	t.close(&t.key)
}

// unverified notes a token that is no good: each such has cost a run. Some causes hold for the next run as well; of
// others, it takes a few in a row.
func (t *turnstile) unverified(err error) {
	refused, _ := errors.AsType[*claim.TokenError](err)
	if refused == nil { // there was no token to look at
		return
	}
	t.mu.Lock()
	t.badKeys++
	several := t.badKeys >= mostRefused
	t.mu.Unlock()
	switch {
	case refused.Misfit():
		t.trip(&t.key, fmt.Errorf("the public key of the worker (WORKER_LIGHTNING_PUBLIC_KEY) does not fit the server's: %w", err))
	case refused.Early():
		t.trip(&t.key, fmt.Errorf("the clock of this machine is behind the server's: %w", err))
	case several:
		t.trip(&t.key, fmt.Errorf("none of the last %d was good; perhaps the clock of this machine is wrong: %w", mostRefused, err))
	}
}

// taken notes that the server has the end of a run, or the run itself.
func (t *turnstile) taken() {
	t.mu.Lock()
	t.server.wait, t.refused = 0, 0
	t.mu.Unlock()
	t.close(&t.server)
}

// refuse notes a run that the server gave away and did not take back, not even its end: the run is lost.
func (t *turnstile) refuse(err error) {
	t.mu.Lock()
	t.refused++
	several := t.refused >= mostRefused
	t.mu.Unlock()
	if several {
		t.trip(&t.server, err)
	}
}

// await returns when a run that the engine was not able to prepare may be tried again: as
// the trial, which [turnstile.trialOver] must follow, or when the engine is well.
func (t *turnstile) await(ctx context.Context) (trial bool, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.waiting++
	t.hastenLocked()
	defer func() {
		t.waiting--
		t.changeLocked()
	}()
	for ctx.Err() == nil {
		switch {
		case t.engine.state == closed:
			return false, nil
		case t.engine.state == onTrial && !t.trying:
			t.trying = true
			return true, nil
		}
		changed := t.changed
		t.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
		}
		t.mu.Lock()
	}
	return false, context.Cause(ctx)
}

// trialOver says that the run is over which was the trial. If it has shown nothing, as when
// it was cancelled, another one may.
func (t *turnstile) trialOver() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.trying = false
	t.changeLocked()
}

// hastenLocked brings a trial of the engine forward that runs wait for.
func (t *turnstile) hastenLocked() {
	if soon := time.Now().Add(waitingMost); t.waiting > 0 && t.engine.next.After(soon) {
		t.engine.next = soon
		t.changeLocked()
	}
}

// trip opens a breaker, or opens it again after a trial. What was told already is not told
// again.
func (t *turnstile) trip(b *breaker, cause error) {
	t.mu.Lock()
	if b.state == opened {
		t.mu.Unlock()
		return
	}
	again := b.state == onTrial
	b.open(cause)
	if b == &t.engine {
		t.proven, t.trying = time.Time{}, false
	}
	wait := b.wait
	t.changeLocked()
	t.mu.Unlock()
	if again {
		t.log.Warn("still no claims: "+b.problem, "error", cause, "next_trial_in", wait)
		return
	}
	t.log.Error("no more claims: "+b.problem, "error", cause, "next_trial_in", wait)
	t.feed.publish(Event{Kind: EventUnable, Err: cause})
}

// close admits claims again, as far as this breaker is concerned.
func (t *turnstile) close(b *breaker) {
	t.mu.Lock()
	was := b.state
	b.state, b.cause = closed, nil
	if was != closed {
		if b == &t.engine {
			t.trying = false
		}
		t.changeLocked()
	}
	t.mu.Unlock()
	if was == opened || was == onTrial {
		t.log.Info("claims are made again", "breaker", b.name)
		t.feed.publish(Event{Kind: EventAble})
	}
}

func (t *turnstile) breakers() []*breaker { return []*breaker{&t.engine, &t.key, &t.server} }

// unable returns the breakers that are not closed.
func (t *turnstile) unable(now time.Time) (unable []UnableStats) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, b := range t.breakers() {
		if b.state != closed {
			unable = append(unable, UnableStats{
				Name: b.name, Error: b.cause.Error(), Pending: b.state == unchecked,
				Since: b.since.UTC(), For: seconds(now.Sub(b.since)), Trial: b.state == onTrial, Next: seconds(b.next.Sub(now)),
			})
		}
	}
	return unable
}

// err returns why no claim is admitted; nil if one would be, or it is not known yet.
func (t *turnstile) err() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, b := range t.breakers() {
		if b.state == opened {
			return fmt.Errorf("%w: %w", ErrUnable, b.cause)
		}
	}
	return nil
}

// checkFirst asks the engine whether it can execute runs at all. The error is one that
// does not pass: somebody must change what the engine was told to work with.
func (t *turnstile) checkFirst(ctx context.Context) error {
	if t.check == nil {
		return nil
	}
	switch err := t.ask(ctx); {
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS), errors.Is(err, syscall.ENOTDIR):
		return err
	case ctx.Err() != nil:
	case err == nil:
		t.close(&t.engine)
	default:
		t.trip(&t.engine, err)
	}
	return nil //nolint:nilerr // it is the breaker's now
}

// ask returns what the check of the engine says. One that panics, or takes too long, says no.
func (t *turnstile) ask(ctx context.Context) (err error) {
	defer func() {
		if v := recover(); v != nil {
			t.log.Error("panic in a check of the engine", "panic", v, "stack", string(debug.Stack()))
			err = fmt.Errorf("the check of the engine panics: %v", v)
		}
	}()
	ctx, cancel := context.WithTimeoutCause(ctx, checkTimeout, fmt.Errorf("the engine has not answered its check in %v", checkTimeout))
	defer cancel()
	if err = t.check(ctx); err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return err
}

// mend tries each breaker when its wait is over, until ctx ends.
func (t *turnstile) mend(ctx context.Context) {
	timer := time.NewTimer(never)
	defer timer.Stop()
	for {
		next, changed := t.nextTrial()
		timer.Reset(time.Until(next))
		select {
		case <-timer.C:
			t.try(ctx)
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// nextTrial returns when the next trial of a breaker is due, and what is closed when that may have changed.
func (t *turnstile) nextTrial() (next time.Time, changed <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	next = time.Now().Add(never)
	for _, b := range t.breakers() {
		if b.state == opened && b.next.Before(next) {
			next = b.next
		}
	}
	return next, t.changed
}

// try admits one run where a trial is due. The engine is asked first, which costs no run, and
// must say that it is well.
func (t *turnstile) try(ctx context.Context) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, b := range t.breakers() {
		if b.state != opened || time.Now().Before(b.next) {
			continue
		}
		var err error
		if b == &t.engine && t.check != nil {
			t.mu.Unlock()
			err = t.ask(ctx)
			t.mu.Lock()
		}
		switch {
		case ctx.Err() != nil, b.state != opened: // the worker stops, or a run has shown meanwhile that all is well
		case err != nil:
			b.postpone(err)
			t.hastenLocked()
		default:
			b.state = onTrial
			t.changeLocked()
		}
	}
}

// breaker keeps claims back: for the time first, then for twice as long each time, and never
// for longer than most. Its turnstile guards it.
type breaker struct {
	name        string
	problem     string // in words, for the log
	first, most time.Duration

	state   breakerState
	cause   error     // nil when it is closed
	since   time.Time // when it was opened
	tripped time.Time // when it was last, be it again
	next    time.Time // when the next trial is
	wait    time.Duration
}

// breakerState is what a breaker admits.
type breakerState uint8

const (
	closed    breakerState = iota // all
	unchecked                     // nothing, until the engine was asked for the first time
	opened                        // nothing, until the next trial; people were told
	onTrial                       // one run, which decides
)

// isShut reports whether nothing is admitted.
func (b *breaker) isShut() bool { return b.state == unchecked || b.state == opened }

// open keeps claims back, for twice as long as the time before.
func (b *breaker) open(cause error) {
	b.tripped = time.Now()
	if b.state != onTrial {
		b.since = b.tripped
	}
	b.state = opened
	b.postpone(cause)
}

// postpone puts the next trial off.
func (b *breaker) postpone(cause error) {
	b.cause = cause
	b.wait = min(max(2*b.wait, b.first), b.most)
	b.next = time.Now().Add(b.wait)
}
