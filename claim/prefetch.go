package claim

import (
	"context"
	"time"
)

const (
	// aheadFor is how long a run may wait for a slot that was claimed ahead of one:
	// another worker may have a slot by now.
	aheadFor = 10 * time.Second
	// aheadTries is how often in a row that may happen before the loop claims ahead
	// no more, until a run of its own has finished.
	aheadTries = 3
	// returning bounds the return of what was claimed and not begun: what the
	// server has not taken by then is to be begun while there is time.
	returning = 30 * time.Second
)

// ahead is the run that was claimed ahead, if there is one, and how well that goes.
type ahead struct {
	run      Ahead
	id       string
	since    time.Time // that it was claimed, or asked to be returned
	asked    bool      // to be returned
	inVain   int       // runs returned since a run finished
	finished uint64    // runs, when that was looked at last
}

// mayPrefetch reports whether a run may be claimed that there is no slot for. In a
// group that was made smaller than what it has, none is.
func (l *Loop) mayPrefetch() bool {
	if l.prefetcher == nil || l.ahead.run != nil {
		return false
	}
	if finished := l.cfg.Pool.Finished(); finished != l.ahead.finished {
		l.ahead.finished, l.ahead.inVain = finished, 0
	}
	counts := l.cfg.Pool.Counts()
	return counts.Size > 0 && counts.Claimed+counts.Running <= counts.Size &&
		l.ahead.inVain < aheadTries && l.prefetcher.CanPrefetch()
}

// prefetch takes the first of the runs that wait for a slot for the one that was
// claimed ahead.
func (l *Loop) prefetch() {
	if len(l.held) == 0 {
		return
	}
	run := l.held[0]
	l.ahead.run = l.prefetcher.Prefetch(run)
	l.ahead.id, l.ahead.since, l.ahead.asked = run.ID, time.Now(), false
	l.held = l.held[1:]
	l.tally.prefetched.Add(1)
}

// startAhead gives the run that was claimed ahead its slot, if there is one now.
func (l *Loop) startAhead() {
	if l.forgetAhead(); l.ahead.run == nil {
		return
	}
	slot, ok := l.takeSlot()
	if !ok {
		return
	}
	slot.Fill(l.ahead.id)
	l.tally.started.Add(1)
	l.ahead.run.Start(slot)
	l.ahead.run = nil
}

// tooLong returns what fires when the run that was claimed ahead has waited too
// long; nil when there is none.
func (l *Loop) tooLong() (<-chan time.Time, func() bool) {
	if l.ahead.run == nil {
		return nil, func() bool { return false }
	}
	timer := time.NewTimer(time.Until(l.ahead.since.Add(aheadFor)))
	return timer.C, timer.Stop
}

// letGo asks for the run to be returned that was claimed ahead. If that does not
// succeed, it goes on waiting for its slot, and is asked for again.
func (l *Loop) letGo() {
	if l.forgetAhead(); l.ahead.run != nil {
		l.ahead.since, l.ahead.asked = time.Now(), true
		l.ahead.run.Release()
	}
}

// over returns what tells that the run which was claimed ahead has ended without a
// slot; nil when there is none.
func (l *Loop) over() <-chan struct{} {
	if l.ahead.run == nil {
		return nil
	}
	return l.ahead.run.Over()
}

// forgetAhead forgets a run that has ended without a slot: it was returned, if that
// was asked for, or else was cancelled or could not be begun.
func (l *Loop) forgetAhead() {
	select {
	case <-l.over():
		l.ahead.run = nil
		if l.ahead.asked {
			l.ahead.inVain++
			l.tally.prefetchedReturned.Add(1)
		}
	default:
	}
}

// returnHeld returns what was claimed and not begun, as the loop stops.
func (l *Loop) returnHeld(work context.Context) {
	l.letGo()
	if l.cfg.Return == nil {
		return
	}
	ctx, cancel := context.WithTimeout(work, returning)
	defer cancel()
	kept := l.held[:0]
	for _, run := range l.held {
		if !l.cfg.Return(ctx, run) {
			kept = append(kept, run)
		}
	}
	clear(l.held[len(kept):])
	l.held = kept
}
