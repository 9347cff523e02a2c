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
)

// ahead is the run that was claimed ahead, if there is one, and how well that goes.
type ahead struct {
	run    Ahead
	id     string
	since  time.Time
	inVain int // runs given back since a run finished
}

// mayPrefetch reports whether a run may be claimed that there is no slot for.
func (l *Loop) mayPrefetch() bool {
	return l.cfg.Prefetcher != nil && l.ahead.run == nil && l.ahead.inVain < aheadTries && l.cfg.Prefetcher.CanPrefetch()
}

// prefetch takes the first of the runs that wait for a slot for the one that was
// claimed ahead.
func (l *Loop) prefetch() {
	if len(l.held) == 0 {
		return
	}
	run := l.held[0]
	l.ahead.run, l.ahead.id, l.ahead.since = l.cfg.Prefetcher.Prefetch(run, l.cfg.Pool.Group()), run.ID, time.Now()
	l.held = l.held[1:]
	l.tally.prefetched.Add(1)
}

// startAhead gives the run that was claimed ahead its slot, if there is one now.
func (l *Loop) startAhead() {
	if l.ahead.run == nil {
		return
	}
	slot, ok := l.takeSlot()
	if !ok {
		return
	}
	slot.Fill(l.ahead.id)
	l.tally.runs.Add(1)
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

// letGo gives the run back that was claimed ahead.
func (l *Loop) letGo() {
	if l.ahead.run == nil {
		return
	}
	l.ahead.run.Release()
	l.ahead.run = nil
	l.ahead.inVain++
	l.tally.returned.Add(1)
}

// giveBackHeld gives back what was claimed and not begun, as the loop stops.
func (l *Loop) giveBackHeld(work context.Context) {
	l.letGo()
	if l.cfg.GiveBack == nil {
		return
	}
	kept := l.held[:0]
	for _, run := range l.held {
		if !l.cfg.GiveBack(work, run) {
			kept = append(kept, run)
		}
	}
	clear(l.held[len(kept):])
	l.held = kept
}
