package claim

import (
	"context"
	"time"
)

const (
	// aheadFor is how long a run that was claimed ahead waits for a slot before it is returned:
	// another worker may have a slot by now.
	aheadFor = 10 * time.Second
	// aheadTries is how many such returns in a row end claiming ahead, until a run has finished.
	aheadTries = 3
	// returnTimeout bounds the return of held runs when the loop stops. The runs that the server
	// has not taken by then are started, while there is time for it.
	returnTimeout = 30 * time.Second
)

// ahead is the run that was claimed ahead, if there is one, and the count of such runs that were
// returned.
type ahead struct {
	Ahead                        // zero when there is none
	late        <-chan time.Time // receives when the run has waited too long; nil when there is none
	returnAsked bool             // Return was called
	inVain      int              // how many were returned since the last run finished
	finished    uint64           // how many runs had finished when inVain was last set to 0
}

// mayPrefetch reports whether the loop may claim a run for which it has no slot. It may not while
// more slots are in use than the group has, as after a Resize.
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

// prefetch makes the first of the held runs the one that was claimed ahead.
func (l *Loop) prefetch() {
	if len(l.held) == 0 {
		return
	}
	run := l.held[0]
	l.held = l.held[1:]
	l.ahead.Ahead, l.ahead.late, l.ahead.returnAsked = l.prefetcher.Prefetch(run), time.After(aheadFor), false
	l.count(func(s *Stats) { s.Prefetched++ })
}

// startAhead starts the run that was claimed ahead, if there is a slot for it now.
func (l *Loop) startAhead() {
	if !l.stillAhead() {
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

// returnAhead asks for the return of the run that was claimed ahead. If the server does not take it,
// it waits on for its slot, and its return is asked for again.
func (l *Loop) returnAhead() {
	if l.stillAhead() {
		l.ahead.late, l.ahead.returnAsked = time.After(aheadFor), true
		l.ahead.Return()
	}
}

// stillAhead reports whether a run that was claimed ahead still waits for its slot. It forgets a run
// that has ended without one: that run was returned, was cancelled, or could not be begun.
func (l *Loop) stillAhead() bool {
	select {
	case <-l.ahead.Over:
		l.ahead.forget()
		if l.ahead.returnAsked {
			l.ahead.inVain++
			l.count(func(s *Stats) { s.PrefetchReturned++ })
		}
	default:
	}
	return l.ahead.Over != nil
}

func (a *ahead) forget() { a.Ahead, a.late = Ahead{}, nil }

// returnHeld returns the runs that have no slot to the queue, as the loop stops. Those that the
// server does not take stay held.
func (l *Loop) returnHeld(work context.Context) {
	l.returnAhead()
	if l.cfg.Return == nil {
		return
	}
	ctx, cancel := context.WithTimeout(work, returnTimeout)
	defer cancel()
	var kept []Run
	for _, run := range l.held {
		if !l.cfg.Return(ctx, run) {
			kept = append(kept, run)
		}
	}
	l.held = kept
}
