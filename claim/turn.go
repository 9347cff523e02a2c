package claim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/phxworker/phxworker/slots"
)

// outcome is what a turn of the loop came to.
type outcome uint8

const (
	undone    outcome = iota // there was no claim to be made after all
	unsent                   // the Claimer was not ready
	brought                  // the claim brought a run
	exhausted                // it brought runs that have come too often
	nothing                  // it did not, for whatever reason
)

// turn makes one claim and starts the runs that it brings.
func (l *Loop) turn(intake, work context.Context) outcome {
	shut := l.askGate(intake)
	switch {
	case intake.Err() != nil:
		return undone
	case shut != nil:
		return nothing
	case l.asked != nil && l.asked.ctx.Err() != nil:
		return undone
	}
	switch l.decide() { // the gate has taken its time
	case Claiming:
	case Unready:
		return unsent
	default:
		return undone
	}
	l.forgetSignals()
	l.reserve()
	l.startAhead() // should a slot have come free only now
	ahead := len(l.reserved) == 0
	if ahead && !l.mayPrefetch() {
		return undone
	}
	defer l.freeReserved()
	runs, woken, outcome := l.put(work)
	if len(runs) == 0 {
		return outcome
	}
	return l.start(runs, woken, ahead, intake, work)
}

// put sends the claim, waits for its reply for as long as a claim may take, and returns the runs
// in it, with the wake-up that they answer, or else the outcome.
func (l *Loop) put(work context.Context) (runs []Run, woken time.Time, o outcome) {
	l.request.Demand = max(len(l.reserved), 1)
	asked := time.Now()
	ctx, cancel := context.WithTimeoutCause(work, l.cfg.Timeout, errTimeout)
	defer cancel()
	l.count(func(s *Stats) { s.Asked = asked.UTC() })
	defer l.count(func(s *Stats) { s.Asked = time.Time{} })
	runs, err := l.cfg.Claimer.Claim(ctx, l.request)
	if errors.Is(err, ErrNotReady) {
		if l.decide(); l.unready == nil { // it says that it is ready, and sends nothing: that must not spin
			return nil, woken, nothing
		}
		return nil, woken, unsent
	}
	woken, l.woken = l.woken, time.Time{}
	if err != nil {
		// A stop that somebody asked for is no failure.
		if work.Err() == nil || !errors.Is(err, work.Err()) && !errors.Is(err, context.Cause(work)) {
			l.count(func(s *Stats) {
				if s.Claims.Failed++; s.Failing.IsZero() {
					s.Failing = asked.UTC()
				}
			})
			l.logChange(&l.failure, err, "claim failed, the loop keeps trying", "")
		}
		return nil, woken, nothing
	}
	l.logChange(&l.failure, nil, "", "claims are answered again")
	l.count(func(s *Stats) {
		s.Answered.Observe(time.Since(asked))
		s.Failing = time.Time{}
		switch {
		case len(runs) > 0:
			s.Claims.Brought++
		case !woken.IsZero():
			s.Claims.EmptyWoken++
			fallthrough
		default:
			s.Claims.Empty++
		}
	})
	return runs, woken, nothing
}

// errTimeout ends a claim.
var errTimeout = errors.New("the server did not answer the claim in time; a run it may have given is lost")

// start starts the runs of a reply, and holds those that there is no slot for.
func (l *Loop) start(runs []Run, woken time.Time, ahead bool, intake, work context.Context) outcome {
	now := time.Now()
	for i := range runs {
		runs[i].Group, runs[i].Claimed, runs[i].Woken = l.cfg.Pool.Group().Name, now, woken
	}
	admitted, fresh := l.admit(runs)
	if !admitted {
		return nothing
	}
	if intake.Err() != nil { // what is returned must not be started; the rest has the slots it was claimed for
		l.returnHeld(work)
	}
	if l.startHeld(); ahead {
		l.prefetch()
	}
	if len(l.held) > 0 {
		l.count(func(s *Stats) { s.Held += uint64(len(l.held)) })
		l.log.Warn("the server returned more runs than were asked for: some wait for a slot",
			"demand", l.request.Demand, "runs", len(runs), "waiting", len(l.held))
	}
	if !fresh {
		l.count(func(s *Stats) { s.Claims.Exhausted++ })
		return exhausted
	}
	return brought
}

// reserve takes the slots to claim for. One that is freed meanwhile is not
// missed: its signal stays in the channel.
func (l *Loop) reserve() {
	for {
		slot, ok := l.cfg.Pool.Reserve()
		if !ok {
			return
		}
		l.reserved = append(l.reserved, slot)
		if !l.cfg.DemandAll {
			return
		}
	}
}

// freeReserved frees the slots that no run came for.
func (l *Loop) freeReserved() {
	for _, slot := range l.reserved {
		slot.Free()
	}
	clear(l.reserved)
	l.reserved = l.reserved[:0]
}

// tired is how often the same run may come back to a group. Beyond that, the group
// is given only what it does not want: to ask again at once would go round in circles with
// the server. It remembers mostSeen of them.
const (
	tired    = 5
	mostSeen = 1000
)

// admit adds the runs of a reply to those that wait for a slot, and reports
// whether there was any, and any that has not come too often. Runs without a
// good token are left out.
func (l *Loop) admit(runs []Run) (admitted, fresh bool) {
	for _, run := range runs {
		if err := l.check(run); err != nil {
			l.count(func(s *Stats) { s.Refused++ })
			if l.cfg.Refused == nil {
				l.log.Error("run refused, it will not be started", "run_id", run.ID, "error", err)
			} else {
				l.cfg.Refused(run, err)
			}
			continue
		}
		l.held = append(l.held, run)
		admitted = true
		if l.seen[run.ID] == 0 && len(l.seen) == mostSeen {
			clear(l.seen)
		}
		l.seen[run.ID]++
		times := l.seen[run.ID]
		if times == tired {
			l.log.Warn("a run comes back again and again", "run_id", run.ID, "times", times)
		}
		fresh = fresh || times <= tired
	}
	return admitted, fresh
}

func (l *Loop) check(run Run) error {
	switch {
	case run.ID == "":
		return errors.New("the server gave it no id")
	case l.cfg.Verifier == nil:
		return nil
	}
	return l.cfg.Verifier.Verify(run)
}

// startHeld starts runs, in order, while there are slots for them.
func (l *Loop) startHeld() {
	l.startAhead()
	started := 0
	for _, run := range l.held {
		slot, ok := l.takeSlot()
		if !ok {
			break
		}
		started++
		l.fill(slot)
		l.cfg.Starter.Start(run, slot)
	}
	l.held = slices.Delete(l.held, 0, started)
}

// takeSlot prefers a slot that was reserved for this claim.
func (l *Loop) takeSlot() (*slots.Slot, bool) {
	last := len(l.reserved) - 1
	if last < 0 {
		return l.cfg.Pool.Reserve()
	}
	slot := l.reserved[last]
	l.reserved = slices.Delete(l.reserved, last, last+1)
	return slot, true
}

func (l *Loop) fill(slot *slots.Slot) {
	slot.Fill()
	l.count(func(s *Stats) { s.Started++ })
}

// logChange logs an error that says something else than the last one, and once that all is well
// again: that makes one line of a server that is away, or a disk that is full, for an hour.
func (l *Loop) logChange(last *string, err error, wrong, well string) {
	switch {
	case err != nil && err.Error() != *last:
		*last = err.Error()
		l.log.Warn(wrong, "error", err)
	case err == nil && *last != "":
		*last = ""
		l.log.Info(well)
	}
}

// gatePatience is how long a gate may ponder before that is told: a group that claims nothing
// looks like a quiet day.
const gatePatience = time.Minute

// askGate returns why the gate holds claims back. One that panics says no: it is not the
// loop's to fall with.
func (l *Loop) askGate(intake context.Context) (err error) {
	if l.cfg.Gate == nil {
		return nil
	}
	late := time.AfterFunc(gatePatience, func() {
		l.log.Warn("the gate has not answered, and the group claims nothing until it does", "after", gatePatience)
	})
	defer late.Stop()
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("the gate panics: %v", v)
		}
		if intake.Err() != nil {
			return
		}
		if err != nil {
			l.count(func(s *Stats) { s.HeldBack++ })
		}
		l.logChange(&l.closed, err, "claims are held back, the gate keeps being asked", "claims are no longer held back")
	}()
	return l.cfg.Gate(intake, l.cfg.Pool.Group().Name)
}
