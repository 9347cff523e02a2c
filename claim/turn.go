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

// turn makes one claim, for whoever asks for it if there is somebody, and starts the runs
// it brings.
func (l *Loop) turn(intake, work context.Context, a *ask) outcome {
	switch {
	case !l.mayClaim(intake):
		return nothing
	case intake.Err() != nil || a.givenUp():
		return undone
	}
	if l.cfg.Gate != nil { // it has taken its time
		if state := l.decide(a); state != Claiming {
			return putOff(state)
		}
	}
	l.forgetSignals()
	l.reserve()
	l.startAhead() // should a slot have come free only now
	ahead := len(l.reserved) == 0
	if ahead && !l.mayPrefetch() {
		return undone
	}
	defer l.freeReserved()

	l.request.Demand = max(len(l.reserved), 1)
	woken := l.woken
	asked := time.Now()
	runs, err := l.put(work)
	if errors.Is(err, ErrNotReady) {
		if l.decide(a); l.unready == nil { // it says that it is ready, and sends nothing: that must not spin
			return nothing
		}
		return unsent
	}
	l.woken = time.Time{}
	if err != nil {
		if !endedBy(work, err) {
			l.tally.failed.Add(1)
			if l.failure.isNew(err) {
				l.log.Warn("claim failed, the loop keeps trying", "error", err)
			}
		}
		return nothing
	}
	if l.failure.isOver() {
		l.log.Info("claims are answered again")
	}
	l.tally.seconds.Observe(time.Since(asked))
	if len(runs) == 0 {
		l.tally.empty.Add(1)
		if !woken.IsZero() {
			l.tally.emptyWoken.Add(1)
		}
		return nothing
	}
	l.tally.brought.Add(1)
	return l.take(runs, woken, ahead, intake, work)
}

// take starts the runs of a reply, and holds those that there is no slot for.
func (l *Loop) take(runs []Run, woken time.Time, ahead bool, intake, work context.Context) outcome {
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
		l.tally.held.Add(uint64(len(l.held)))
		l.log.Warn("the server returned more runs than were asked for: some wait for a slot",
			"demand", l.request.Demand, "runs", len(runs), "waiting", len(l.held))
	}
	if !fresh {
		l.tally.exhausted.Add(1)
		return exhausted
	}
	return brought
}

// put sends the claim and waits for its reply, for as long as a claim may take.
func (l *Loop) put(work context.Context) ([]Run, error) {
	ctx, cancel := context.WithTimeoutCause(work, l.cfg.Timeout, errTimeout)
	defer cancel()
	return l.cfg.Claimer.Claim(ctx, l.request)
}

// putOff is the outcome of a claim that the state does not allow just now.
func putOff(state State) outcome {
	if state == Unready {
		return unsent
	}
	return undone
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
		slot.Release()
	}
	clear(l.reserved)
	l.reserved = l.reserved[:0]
}

// admit adds the runs of a reply to those that wait for a slot, and reports
// whether there was any, and any that has not come too often. Runs without a
// good token are left out.
func (l *Loop) admit(runs []Run) (admitted, fresh bool) {
	for _, run := range runs {
		if err := l.check(run); err != nil {
			l.tally.refused.Add(1)
			if l.cfg.Refused == nil {
				l.log.Error("run refused, it will not be started", "run_id", run.ID, "error", err)
			} else {
				l.cfg.Refused(run, err)
			}
			continue
		}
		l.held = append(l.held, run)
		admitted = true
		times := l.see(run.ID)
		if times == tired {
			l.log.Warn("a run comes back again and again", "run_id", run.ID, "times", times)
		}
		fresh = fresh || times <= tired
	}
	return admitted, fresh
}

func (l *Loop) check(run Run) error {
	if run.ID == "" {
		return errNoID
	}
	if l.cfg.Verifier == nil {
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
		slot.Fill(run.ID)
		l.tally.started.Add(1)
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
	l.reserved[last] = nil
	l.reserved = l.reserved[:last]
	return slot, true
}

// news is the text of the last error of its kind, "" when all is well. It makes one line of
// a server that is away, or a disk that is full, for an hour.
type news string

// isNew notes an error, and reports whether it says something else than the one before. The
// text is all there is to compare: two claims never fail of one value.
func (n *news) isNew(err error) bool {
	before := *n
	*n = news(err.Error())
	return *n != before
}

// isOver notes that all is well, and reports whether it was not before.
func (n *news) isOver() bool {
	before := *n
	*n = ""
	return before != ""
}

// endedBy reports whether err is what the end of ctx makes of a claim, which is
// a stop that somebody asked for and no failure.
func endedBy(ctx context.Context, err error) bool {
	return ctx.Err() != nil && (errors.Is(err, ctx.Err()) || errors.Is(err, context.Cause(ctx)))
}

// mayClaim asks the gate, if there is one.
func (l *Loop) mayClaim(intake context.Context) bool {
	if l.cfg.Gate == nil {
		return true
	}
	err := l.askGate(intake)
	switch {
	case intake.Err() != nil:
		return false
	case err == nil:
		if l.closed.isOver() {
			l.log.Info("claims are no longer held back")
		}
		return true
	}
	l.tally.heldBack.Add(1)
	if l.closed.isNew(err) {
		l.log.Warn("claims are held back, the gate keeps being asked", "error", err)
	}
	return false
}

// gatePatience is how long a gate may ponder before that is told: a group that claims nothing
// looks like a quiet day.
const gatePatience = time.Minute

// askGate takes a gate that panics for one that says no: it is not the loop's to
// fall with.
func (l *Loop) askGate(ctx context.Context) (err error) {
	late := time.AfterFunc(gatePatience, func() {
		l.log.Warn("the gate has not answered, and the group claims nothing until it does", "after", gatePatience)
	})
	defer late.Stop()
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("the gate panics: %v", v)
		}
	}()
	return l.cfg.Gate(ctx, l.cfg.Pool.Group().Name)
}

// tired is how often the same run may come back to a group. Beyond that, the group
// is given only what it does not want: to ask again at once would go round in circles with
// the server.
const tired = 5

// mostSeen bounds what is remembered of runs that come.
const mostSeen = 1000

// see counts a run, and returns how often it has come. It forgets all of them when there are
// too many.
func (l *Loop) see(id string) int {
	if l.seen[id] == 0 && len(l.seen) == mostSeen {
		clear(l.seen)
	}
	l.seen[id]++
	return l.seen[id]
}
