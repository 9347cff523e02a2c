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
	Ahead                     // zero when there is none
	late     <-chan time.Time // receives when it has waited too long; nil when there is none
	asked    bool             // to be returned
	inVain   int              // runs returned since a run finished
	finished uint64           // runs, when that was looked at last
}

// mayPrefetch reports whether a run may be claimed that there is no slot for. In a
// group that was made smaller than what it has, none is.
func (l *Loop) mayPrefetch() bool {
	if l.prefetcher == nil || l.ahead.Over != nil {
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
	l.held = l.held[1:]
	l.ahead.Ahead, l.ahead.late, l.ahead.asked = l.prefetcher.Prefetch(run), time.After(aheadFor), false
	l.count(func(s *Stats) { s.Prefetched++ })
}

// startAhead gives the run that was claimed ahead its slot, if there is one now.
func (l *Loop) startAhead() {
	if !l.isAhead() {
		return
	}
	slot, ok := l.takeSlot()
	if !ok {
		return
	}
	l.fill(slot)
	l.ahead.Start(slot)
	l.ahead.forget()
}

// returnAhead asks for the run to be returned that was claimed ahead. If that does not
// succeed, it goes on waiting for its slot, and is asked for again.
func (l *Loop) returnAhead() {
	if l.isAhead() {
		l.ahead.late, l.ahead.asked = time.After(aheadFor), true
		l.ahead.Return()
	}
}

// isAhead reports whether there is a run that was claimed ahead. It forgets one that has ended
// without a slot: it was returned, if that was asked for, or else was cancelled or could not be
// begun.
func (l *Loop) isAhead() bool {
	select {
	case <-l.ahead.Over:
		l.ahead.forget()
		if l.ahead.asked {
			l.ahead.inVain++
			l.count(func(s *Stats) { s.PrefetchReturned++ })
		}
	default:
	}
	return l.ahead.Over != nil
}

func (a *ahead) forget() { a.Ahead, a.late = Ahead{}, nil }

// returnHeld returns what was claimed and not begun, as the loop stops.
func (l *Loop) returnHeld(work context.Context) {
	l.returnAhead()
	if l.cfg.Return == nil {
		return
	}
	ctx, cancel := context.WithTimeout(work, returning)
	defer cancel()
	var kept []Run
	for _, run := range l.held {
		if !l.cfg.Return(ctx, run) {
			kept = append(kept, run)
		}
	}
	l.held = kept
}
