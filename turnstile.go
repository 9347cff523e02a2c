package phxworker

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"runtime/debug"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/phxworker/phxworker/claim"
	"github.com/phxworker/phxworker/runner"
)

// ErrUnable says that a worker claims nothing because its engine cannot execute runs, because its key does
// not fit their tokens, or because the server does not take the runs from it. It comes with the cause.
var ErrUnable = errors.New("the worker cannot execute runs")

const (
	// mostUnproven is how many unproven runs there may be while the engine is not trusted: an engine
	// that is ill may lose all of them. The groups share this number; each has one at least.
	mostUnproven = 3
	// trustFor is how long the engine is trusted after it has executed a run.
	trustFor = 10 * time.Second
	// mostTrialWait is the longest wait for a trial while a run in a slot waits for it. Such a
	// trial loses no run, so it may come soon.
	mostTrialWait = 30 * time.Second
	// checkTimeout bounds a check of the engine, which may install something.
	checkTimeout = 2 * time.Minute
	// mostRefused is how many runs in a row may be refused, by the server or for their tokens, before no
	// more are claimed: one alone may have a reason of its own.
	mostRefused = 3
	// anyNumber is more than any group has slots.
	anyNumber = 1 << 30
)

// turnstile says how many runs may be claimed: none while a breaker is tripped, one while a breaker is
// on trial, a few while the engine is not trusted, and otherwise any number.
//
// A run is unproven from its claim until it is known that the engine can execute it: until then, an
// engine that is ill may lose it.
type turnstile struct {
	feed  *feed
	log   *slog.Logger
	check func(ctx context.Context) error // asks the engine whether it is well; nil if it cannot be asked
	share int                             // of mostUnproven, for each group

	mu       sync.Mutex
	engine   breaker
	key      breaker
	server   breaker
	unproven map[string]int // unproven runs by group, with those that a claim has asked for
	total    int            // the sum of unproven
	executed time.Time      // when the engine last executed a run; zero after a trip
	waiting  int            // runs in slots that could not be prepared and wait for the engine
	trying   bool           // one of the waiting runs is the trial
	changed  chan struct{}  // closed and replaced when more may be admitted, or the next trial has moved
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

// errUnchecked is why nothing is claimed before the first check.
var errUnchecked = errors.New("the engine has not answered its first check yet")

// room returns how many runs a group may claim, and a channel that is closed when that may be more.
func (t *turnstile) room(group string) (n int, changed <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.roomLocked(group), t.changed
}

func (t *turnstile) roomLocked(group string) int {
	switch {
	case t.engine.admitsNone(), t.key.admitsNone(), t.server.admitsNone(), t.engine.state == onTrial && t.waiting > 0:
		return 0 // where a run waits, that run is the trial
	case t.engine.state == onTrial, t.key.state == onTrial, t.server.state == onTrial:
		return max(0, 1-t.total)
	case t.trustsLocked():
		return anyNumber
	}
	return max(0, t.share-t.unproven[group])
}

// trustsLocked reports whether the engine has executed a run lately.
func (t *turnstile) trustsLocked() bool {
	return !t.executed.IsZero() && time.Since(t.executed) < trustFor
}

// admit returns how many of the demanded runs may be claimed now, and whether the claim is a trial. It
// counts them as unproven; [turnstile.noteAnswer] must follow.
func (t *turnstile) admit(group string, demand int) (n int, trial bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n = min(demand, t.roomLocked(group))
	t.countLocked(group, n)
	return n, t.engine.state == onTrial || t.key.state == onTrial || t.server.state == onTrial
}

// noteAnswer takes the runs that were admitted and did not come off the count. When a trial has brought
// no run, an engine whose check says that it is well is believed.
func (t *turnstile) noteAnswer(group string, admitted, came int, trial bool) {
	t.mu.Lock()
	t.countLocked(group, came-admitted)
	if came > 0 && t.server.state == onTrial { // the end of this run decides, or else the next trial
		t.server.state = tripped
		t.server.postpone(t.server.cause)
		t.changeLocked()
	}
	untried := trial && came == 0 && t.engine.state == onTrial && t.check != nil
	t.mu.Unlock()
	if untried {
		t.reset(&t.engine)
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

// uncount takes a run off the unproven ones.
func (t *turnstile) uncount(group string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.countLocked(group, -1)
}

// noteExecuted notes that the engine can execute a run, which it began to prepare at the time began.
func (t *turnstile) noteExecuted(began time.Time) {
	t.mu.Lock()
	if began.Before(t.engine.trippedAt) { // this run says nothing about the engine since then
		t.mu.Unlock()
		return
	}
	if !t.trustsLocked() {
		t.changeLocked()
	}
	t.executed = time.Now()
	if t.executed.Sub(t.engine.trippedAt) > t.engine.most { // an illness that comes and goes keeps its long wait
		t.engine.wait = 0
	}
	t.mu.Unlock()
	t.reset(&t.engine)
}

// noteVerified notes that the key fits.
func (t *turnstile) noteVerified() { t.noteWell(&t.key) }

// noteTaken notes that the server has the end of a run, or has taken the run back.
func (t *turnstile) noteTaken() { t.noteWell(&t.server) }

// noteWell resets a breaker for which a run has shown that all is well.
func (t *turnstile) noteWell(b *breaker) {
	t.mu.Lock()
	b.wait, b.refused = 0, 0
	t.mu.Unlock()
	t.reset(b)
}

// countRefused counts one more in a row for a breaker, and reports whether there were several.
func (t *turnstile) countRefused(b *breaker) (several bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	b.refused++
	return b.refused >= mostRefused
}

// noteRefusedToken notes that a token was refused. Some causes hold for the next run as well; any other
// must come a few times in a row.
func (t *turnstile) noteRefusedToken(err error) {
	refused, _ := errors.AsType[*claim.TokenError](err)
	if refused == nil { // the run had no id
		return
	}
	several := t.countRefused(&t.key)
	switch {
	case refused.Misfit():
		t.trip(&t.key, fmt.Errorf("the public key of the worker (WORKER_LIGHTNING_PUBLIC_KEY) does not fit the server's: %w", err))
	case refused.Early():
		t.trip(&t.key, fmt.Errorf("the clock of this machine is behind the server's: %w", err))
	case several:
		t.trip(&t.key, fmt.Errorf("none of the last %d was good; perhaps the clock of this machine is wrong: %w", mostRefused, err))
	}
}

// noteNotTaken notes a run that is lost: the server took neither its end nor the run itself.
func (t *turnstile) noteNotTaken(err error) {
	if t.countRefused(&t.server) {
		t.trip(&t.server, err)
	}
}

// awaitEngine waits until a run that the engine could not prepare may be tried again, because the
// engine is well or because this run is the trial. After a trial, [turnstile.endTrial] must follow.
func (t *turnstile) awaitEngine(ctx context.Context) (trial bool, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.waiting++
	t.hastenTrialLocked()
	defer func() {
		t.waiting--
		t.changeLocked()
	}()
	for ctx.Err() == nil {
		switch {
		case t.engine.state == well:
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

// endTrial ends the trial by a waiting run. If that run has shown nothing, as when it was cancelled,
// the next one that waits is the trial.
func (t *turnstile) endTrial() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.trying = false
	t.changeLocked()
}

// hastenTrialLocked brings the trial of the engine forward if runs wait for it.
func (t *turnstile) hastenTrialLocked() {
	if soon := time.Now().Add(mostTrialWait); t.waiting > 0 && t.engine.next.After(soon) {
		t.engine.next = soon
		t.changeLocked()
	}
}

// trip trips a breaker, also again after a trial. Only the first trip is an error in the log and an
// event.
func (t *turnstile) trip(b *breaker, cause error) {
	t.mu.Lock()
	if b.state == tripped {
		t.mu.Unlock()
		return
	}
	again := b.state == onTrial
	b.trip(cause)
	if b == &t.engine {
		t.executed, t.trying = time.Time{}, false
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

// reset ends what a breaker keeps back. Only when all breakers are well, it is in the log and an event.
func (t *turnstile) reset(b *breaker) {
	t.mu.Lock()
	was := b.state
	b.state, b.cause = well, nil
	if was != well {
		if b == &t.engine {
			t.trying = false
		}
		t.changeLocked()
	}
	able := (was == tripped || was == onTrial) && !slices.ContainsFunc(t.breakers(), func(b *breaker) bool { return b.state != well })
	t.mu.Unlock()
	if able {
		t.log.Info("claims are made again", "breaker", b.name)
		t.feed.publish(Event{Kind: EventAble})
	}
}

func (t *turnstile) breakers() []*breaker { return []*breaker{&t.engine, &t.key, &t.server} }

// unable returns the breakers that are not well.
func (t *turnstile) unable(now time.Time) (unable []UnableStats) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, b := range t.breakers() {
		if b.state != well {
			unable = append(unable, UnableStats{
				Name: b.name, Error: b.cause.Error(), Pending: b.state == unchecked,
				Since: b.since.UTC(), For: seconds(now.Sub(b.since)), Trial: b.state == onTrial, Next: seconds(b.next.Sub(now)),
			})
		}
	}
	return unable
}

// err returns why no claim is admitted; nil if one is, or if the engine was not checked yet.
func (t *turnstile) err() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, b := range t.breakers() {
		if b.state == tripped {
			return fmt.Errorf("%w: %w", ErrUnable, b.cause)
		}
	}
	return nil
}

// checkFirst asks the engine for the first time whether it can execute runs. It returns only an error
// that does not pass by itself: somebody must change the configuration. Any other error trips the
// breaker.
func (t *turnstile) checkFirst(ctx context.Context) error {
	if t.check == nil {
		return nil
	}
	switch err := t.ask(ctx); {
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS), errors.Is(err, syscall.ENOTDIR):
		return err
	case ctx.Err() != nil:
	case err == nil:
		t.reset(&t.engine)
	default:
		t.trip(&t.engine, err)
	}
	return nil //nolint:nilerr // the breaker has it
}

// ask returns the answer of the engine's check. A check that panics or takes too long is an error.
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

// runTrials begins the trial of each breaker when its wait is over, until ctx ends.
func (t *turnstile) runTrials(ctx context.Context) {
	timer := time.NewTimer(never)
	defer timer.Stop()
	for {
		next, changed := t.nextTrial()
		timer.Reset(time.Until(next))
		select {
		case <-timer.C:
			t.beginTrials(ctx)
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// nextTrial returns when the next trial is due, and a channel that is closed when that may have
// changed.
func (t *turnstile) nextTrial() (next time.Time, changed <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	next = time.Now().Add(never)
	for _, b := range t.breakers() {
		if b.state == tripped && b.next.Before(next) {
			next = b.next
		}
	}
	return next, t.changed
}

// beginTrials begins the trials that are due: from then on, one run is admitted. The check of the
// engine must succeed first, for it costs no run.
func (t *turnstile) beginTrials(ctx context.Context) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, b := range t.breakers() {
		if b.state != tripped || time.Now().Before(b.next) {
			continue
		}
		var err error
		if b == &t.engine && t.check != nil {
			t.mu.Unlock()
			err = t.ask(ctx)
			t.mu.Lock()
		}
		switch {
		case ctx.Err() != nil, b.state != tripped: // the worker stops, or a run has reset the breaker meanwhile
		case err != nil:
			b.postpone(err)
			t.hastenTrialLocked()
		default:
			b.state = onTrial
			t.changeLocked()
		}
	}
}

// breaker keeps claims back: for the time first, then for twice as long each time, up to most. The
// mutex of its turnstile guards it.
type breaker struct {
	name        string
	problem     string // in words, for the log
	first, most time.Duration

	state     breakerState
	cause     error     // nil when it is well
	since     time.Time // when it was tripped or unchecked first
	trippedAt time.Time // when it was last tripped, be it again
	next      time.Time // when the next trial is due
	wait      time.Duration
	refused   int // tokens, or runs, in a row
}

// breakerState says what a breaker admits.
type breakerState uint8

const (
	well      breakerState = iota // all runs
	unchecked                     // none, until the engine has answered its first check
	tripped                       // none, until the next trial
	onTrial                       // one run, which decides
)

func (b *breaker) admitsNone() bool { return b.state == unchecked || b.state == tripped }

// trip keeps claims back for twice as long as the last time.
func (b *breaker) trip(cause error) {
	b.trippedAt = time.Now()
	if b.state != onTrial {
		b.since = b.trippedAt
	}
	b.state = tripped
	b.postpone(cause)
}

// postpone puts the next trial off, each time for twice as long.
func (b *breaker) postpone(cause error) {
	b.cause = cause
	b.wait = min(max(2*b.wait, b.first), b.most)
	b.next = time.Now().Add(b.wait)
}
