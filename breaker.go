package phxworker

import (
	"context"
	"errors"
	"time"
)

// The names of the breakers.
const (
	BreakerEngine = "engine" // the engine cannot execute runs
	BreakerKey    = "key"    // the public key does not fit the tokens of runs
)

// BreakerStats is a reason for which a worker may claim nothing, at one moment.
type BreakerStats struct {
	// Name is [BreakerEngine] or [BreakerKey].
	Name string
	// Cause is why nothing is claimed, or one run at a time to see whether that still
	// is so; nil when all is well.
	Cause error
	// Pending says that the engine was not asked yet whether it can execute runs, so that
	// nothing is known.
	Pending bool
	// Since is when that began.
	Since time.Time
	// Trial says that the next run that there is decides; before, Next is when it will be so.
	Trial bool
	Next  time.Time
}

// breaker keeps claims back, for longer and longer: first, then twice as long, most at the
// most. It is guarded by its turnstile.
type breaker struct {
	name        string
	problem     string // in words, for the log
	first, most time.Duration
	// check says whether there is any use in a trial; nil if only a run can tell.
	check func(ctx context.Context) error

	cause   error     // nil: it is closed
	since   time.Time // when it was opened
	tripped time.Time // when it was last, be it again
	next    time.Time // when the next trial is
	wait    time.Duration
	trial   bool          // a run is let in
	told    bool          // people know that it is open
	moved   chan struct{} // capacity one: receives when it was opened or closed
}

// shut reports whether nothing is let in.
func (b *breaker) shut() bool { return b.cause != nil && !b.trial }

// open keeps claims back, for twice as long as the time before.
func (b *breaker) open(cause error) {
	b.tripped = time.Now()
	if !b.told {
		b.since = b.tripped
	}
	b.trial, b.told = false, true
	b.postpone(cause)
	b.signal()
}

func (b *breaker) signal() {
	select {
	case b.moved <- struct{}{}:
	default:
	}
}

// postpone puts the next trial off.
func (b *breaker) postpone(cause error) {
	b.cause = cause
	b.wait = min(max(2*b.wait, b.first), b.most)
	b.next = time.Now().Add(b.wait)
}

func (b *breaker) stats() BreakerStats {
	return BreakerStats{Name: b.name, Cause: b.cause, Pending: errors.Is(b.cause, errUnchecked), Since: b.since, Trial: b.trial, Next: b.next}
}
