package claim

import (
	"context"
	"fmt"
)

// Pause stops the loop from claiming; runs under way go on, and the claim in flight
// is waited for. It may be called at any time.
func (l *Loop) Pause() { l.paused.Store(true) }

// Resume ends a pause.
func (l *Loop) Resume() {
	l.paused.Store(false)
	select {
	case l.resumed <- struct{}{}:
	default:
	}
}

// Paused reports whether the loop is paused.
func (l *Loop) Paused() bool { return l.paused.Load() }

// Claim makes the loop put one claim as soon as it can, also when it is paused or would
// wait, and reports whether it brought a run. It puts none when no slot is open. A claim
// that is in flight already is waited for first, and so is a Claimer that is not ready.
//
// The error is the cause of the end of ctx, which must end when the loop does. What was
// not sent by then never will be; a claim that is in flight goes on.
func (l *Loop) Claim(ctx context.Context) (bool, error) {
	for {
		a := &ask{ctx: ctx, became: make(chan outcome, 1)}
		select {
		case l.asks <- a:
		case <-ctx.Done():
			return false, context.Cause(ctx)
		}
		select {
		case o := <-a.became:
			if o != unsent { // else it is to wait until the Claimer is ready
				return o == brought || o == exhausted, nil
			}
		case <-ctx.Done():
			return false, context.Cause(ctx)
		}
	}
}

// ask is a claim that somebody wants now.
type ask struct {
	ctx    context.Context // of who wants it
	became chan outcome
}

func (a *ask) givenUp() bool { return a != nil && a.ctx.Err() != nil }

func (l *Loop) answer(a *ask, intake, work context.Context) {
	if l.decide(a) != Claiming {
		a.became <- l.putOff()
		return
	}
	l.enter(Claiming)
	outcome := l.turn(intake, work, a)
	l.settle(outcome)
	a.became <- outcome
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
		if l.closed != "" {
			l.closed = ""
			l.log.Info("claims are no longer held back")
		}
		return true
	}
	l.tally.heldBack.Add(1)
	if text := err.Error(); text != l.closed { // a full disk is one line, not one a claim
		l.closed = text
		l.log.Warn("claims are held back, the gate keeps being asked", "error", err)
	}
	return false
}

// askGate takes a gate that panics for one that says no: it is not the loop's to
// fall with.
func (l *Loop) askGate(ctx context.Context) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("the gate panics: %v", v)
		}
	}()
	return l.cfg.Gate(ctx)
}
