package claim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/phxworker/phxworker/slots"
)

// outcome is the result of a turn of the loop.
type outcome uint8

const (
	undone    outcome = iota // no claim was sent: there was no reason for it any more
	unsent                   // no claim was sent: the Claimer was not ready
	brought                  // the claim brought a run
	exhausted                // the claim brought only runs that have come too often
	nothing                  // the claim brought no run, failed, or was held back by the gate
)

// turn makes one claim and starts the runs that it brings.
func (l *Loop) turn(intake, work context.Context) outcome {
	err := l.askGate(intake)
	switch {
	case intake.Err() != nil:
		return undone
	case err != nil:
		return nothing
	case l.asked != nil && l.asked.ctx.Err() != nil:
		return undone
	}
	switch l.decide() { // again, for the gate may have taken long
	case Claiming:
	case Unready:
		return unsent
	default:
		return undone
	}
	l.takeSignals()
	l.reserve()
	l.startAhead() // if the slot that was reserved has come free only now, it is for the run ahead
	ahead := len(l.reserved) == 0
	if ahead && !l.mayPrefetch() {
		return undone
	}
	defer l.freeReserved()
	runs, o := l.sendClaim(work)
	if len(runs) == 0 {
		return o
	}
	return l.start(runs, ahead, intake, work)
}

// sendClaim sends the claim and waits for its reply, for [Options.Timeout] at most. It returns the runs
// of the reply, or the outcome if there are none.
func (l *Loop) sendClaim(work context.Context) ([]Run, outcome) {
	l.request.Demand = max(len(l.reserved), 1)
	sent := time.Now()
	ctx, cancel := context.WithTimeoutCause(work, l.cfg.Timeout, errTimeout)
	defer cancel()
	l.count(func(s *Stats) { s.Asked = sent.UTC() })
	defer l.count(func(s *Stats) { s.Asked = time.Time{} })
	runs, err := l.cfg.Claimer.Claim(ctx, l.request)
	if errors.Is(err, ErrNotReady) {
		if l.isReady() { // a Claimer that is ready and sends nothing must not make the loop spin
			return nil, nothing
		}
		return nil, unsent
	}
	woken := l.woken
	l.woken = time.Time{}
	if err != nil {
		// The end of work is no failure of the claim.
		if work.Err() == nil || !errors.Is(err, work.Err()) && !errors.Is(err, context.Cause(work)) {
			l.count(func(s *Stats) {
				if s.Claims.Failed++; s.Failing.IsZero() {
					s.Failing = sent.UTC()
				}
			})
			l.logChange(&l.claimError, err, "claim failed, the loop keeps trying", "")
		}
		return nil, nothing
	}
	l.logChange(&l.claimError, nil, "", "claims are answered again")
	l.count(func(s *Stats) {
		s.Answered.Observe(time.Since(sent))
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
	now := time.Now()
	for i := range runs {
		runs[i].Group, runs[i].Claimed, runs[i].Woken = l.cfg.Pool.Group().Name, now, woken
	}
	return runs, nothing
}

// errTimeout ends a claim after [Options.Timeout].
var errTimeout = errors.New("the server did not answer the claim in time; a run it may have given is lost")

// start starts the runs of a reply. Runs that have no slot stay held, and the first of them becomes
// the one ahead if the claim was made for that.
func (l *Loop) start(runs []Run, ahead bool, intake, work context.Context) outcome {
	o := l.hold(runs)
	if o == nothing {
		return nothing
	}
	if intake.Err() != nil { // before the start: only what the server does not take back is started
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
	if o == exhausted {
		l.count(func(s *Stats) { s.Claims.Exhausted++ })
	}
	return o
}

// reserve reserves the slots to claim for. A slot that is freed meanwhile leaves its signal in the
// pool's channel.
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

const (
	// mostTimes is how often the same run may come to a group. A run that comes more often is no
	// reason to claim again at once: the group would return it and get it back for ever.
	mostTimes = 5
	// mostSeen is how many runs a group remembers for that.
	mostSeen = 1000
)

// hold adds the runs of a reply to those that wait for a slot, and says what the reply has brought.
// A run without a good token is left out.
func (l *Loop) hold(runs []Run) outcome {
	o := nothing
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
		if l.seen[run.ID] == 0 && len(l.seen) == mostSeen {
			clear(l.seen)
		}
		l.seen[run.ID]++
		times := l.seen[run.ID]
		if times == mostTimes {
			l.log.Warn("a run comes back again and again", "run_id", run.ID, "times", times)
		}
		switch {
		case times <= mostTimes:
			o = brought
		case o == nothing:
			o = exhausted
		}
	}
	return o
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

// startHeld starts the runs that wait for a slot, in order, while there are slots.
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

// takeSlot returns a slot that was reserved for this claim, or else one that is open.
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

// logChange logs an error that differs from the last one, and the first success after an error. So an
// hour without a server is one line.
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

// gatePatience is the time after which a gate that has not answered is logged: without that line, the
// group would only look idle.
const gatePatience = time.Minute

// askGate returns why the gate holds the claim back; nil if it does not. A gate that panics holds it
// back.
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
			l.count(func(s *Stats) { s.HeldBack, s.Failing = s.HeldBack+1, time.Time{} })
		}
		l.logChange(&l.gateError, err, "claims are held back, the gate keeps being asked", "claims are no longer held back")
	}()
	return l.cfg.Gate(intake, l.cfg.Pool.Group().Name)
}
