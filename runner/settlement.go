package runner

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/phxworker/phxworker/runner/terms"
)

// Settlement is what became of a claimed run as far as the server's queue is
// concerned. There is exactly one for each.
type Settlement string

// The settlements.
const (
	Unsettled   Settlement = "unsettled"   // none: a mistake of ours
	Processed   Settlement = "processed"   // it was reported, with whatever reason
	Cancelled   Settlement = "cancelled"   // it was reported as cancelled
	Discarded   Settlement = "discarded"   // it was reported as not to be executed
	Poisonous   Settlement = "poisonous"   // it was reported as never to be tried again
	Requeued    Settlement = "requeued"    // it was returned to the queue after a failure, to be tried again
	Postponed   Settlement = "postponed"   // it was returned for later
	Returned    Settlement = "returned"    // it was returned untouched
	LeaseLost   Settlement = "lease_lost"  // it was another worker's by then; nothing was reported
	Undelivered Settlement = "undelivered" // the server could not be told
)

// Settlements returns all of them.
func Settlements() []Settlement {
	return []Settlement{Unsettled, Processed, Cancelled, Discarded, Poisonous, Requeued, Postponed, Returned, LeaseLost, Undelivered}
}

// InQueue reports whether the run is in the server's queue again.
func (s Settlement) InQueue() bool { return s == Requeued || s == Postponed || s == Returned }

// disposition is an error by which an engine, or who accepts runs, says what is to
// become of the run other than that it failed.
type disposition struct {
	settled Settlement
	delay   time.Duration
	reason  string // for people
	release string // what the server is told; empty for one that does not return the run
	stopped bool   // because the worker stops
	// unable is what the run ends with where the server takes none back, when it was
	// this worker that could not execute it; else nil.
	unable *Failure
}

func (d *disposition) Error() string {
	return strings.TrimSuffix("the run is to be "+string(d.settled)+": "+d.reason, ": ")
}

// ErrRequeue says that a run failed for a reason that may be gone when it is tried
// again, by this worker or another. Wrap it to say why. A server that takes no runs
// back (see docs/extensions/release.md) gets it as an exception of type Requeued.
var ErrRequeue error = &disposition{settled: Requeued, release: terms.ReleaseRequeue}

// Requeue says the same as [ErrRequeue], for the reason given, and that the next try
// is to come after the delay at the earliest, 0 or less for 3 s. It counts as an attempt, so the delay can grow
// with [Run.Attempt].
func Requeue(delay time.Duration, reason string) error {
	return later(Requeued, terms.ReleaseRequeue, delay, reason)
}

// longestDelay is more than any server keeps a run for.
const longestDelay = 365 * 24 * time.Hour

// later returns the run after the delay. One that no server takes is a mistake, which ends the run.
func later(settled Settlement, release string, delay time.Duration, reason string) error {
	if delay > longestDelay {
		return &Failure{Reason: Exception, Type: "DelayError", Message: fmt.Sprintf("The run was to be %s for %v: a year is the most (%s)", settled, delay, reason)}
	}
	return &disposition{settled: settled, release: release, delay: delay, reason: reason}
}

// Unable says that an engine could not execute a run for a reason that lies in this
// worker and not in the run: no disk, no memory, a program that does not start. The run
// goes back as with [ErrRequeue]; a server that takes none back gets the failure.
// Its [Host] is told at once, for a worker had better take no more runs then.
func Unable(failure *Failure) error {
	if failure == nil {
		failure = &Failure{Reason: Exception, Type: "EngineError", Message: "The engine was not able to execute the run, and does not say why"}
	}
	return &disposition{settled: Requeued, release: terms.ReleaseRequeue, reason: failure.Message, unable: failure}
}

// Postpone says that a run is for later, at the earliest after the delay, for the reason
// given, and that nothing has failed: it counts as no attempt. It falls back as [ErrRequeue]
// does, with the type Postponed. More than a year, here and in [Requeue], ends the run as an
// exception; a server may bound it sooner.
func Postpone(delay time.Duration, reason string) error {
	return later(Postponed, terms.ReleasePostpone, delay, reason)
}

// Discard says that a run is not to be executed, for the reason given. It is
// reported as an exception of type Discarded.
func Discard(reason string) error { return &disposition{settled: Discarded, reason: reason} }

// Poison says that a run must never be tried again, for the reason given. It is
// reported as an exception of type Poisonous.
func Poison(reason string) error { return &disposition{settled: Poisonous, reason: reason} }

// ErrTooLong is for [Host.Begin]: the run was claimed ahead and has waited
// too long for a slot.
var ErrTooLong error = &disposition{settled: Returned, release: terms.ReleasePrefetch, reason: "it was claimed ahead, and has waited too long for a slot"}

// dispositionOf returns what an error wants to become of its run, nil if nothing
// special.
func dispositionOf(err error) *disposition {
	var d *disposition
	if !errors.As(err, &d) {
		return nil
	}
	if d.reason == "" && err.Error() != d.Error() { // ErrRequeue, wrapped with a reason
		wrapped := *d
		wrapped.reason = err.Error()
		return &wrapped
	}
	return d
}

// failure is how the run is reported to a server that cannot do what is wanted, or
// when to be reported is what is wanted.
func (d *disposition) failure() *Failure {
	if d.unable != nil {
		failure := *d.unable
		return &failure
	}
	kinds := map[Settlement]string{Requeued: "Requeued", Postponed: "Postponed", Returned: "Returned", Discarded: "Discarded", Poisonous: "Poisonous"}
	message := d.reason
	switch {
	case d.returns() && message == "":
		message = "The worker was to return the run to the queue, and the server did not take it"
	case d.returns():
		message = "The worker was to return the run to the queue, and the server did not take it: " + message
	}
	return &Failure{Reason: Exception, Type: kinds[d.settled], Message: message}
}

// returns reports whether the run is to go back to the queue.
func (d *disposition) returns() bool { return d.settled.InQueue() }
