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

// Claim makes the loop put one claim now, also when it is paused or would wait, and
// reports whether it brought a run. It puts none when no slot is open. A claim
// that is in flight already is waited for first. The error is the cause of the
// end of ctx, which must end when the loop does; the claim goes on then.
func (l *Loop) Claim(ctx context.Context) (bool, error) {
	a := ask{brought: make(chan bool, 1)}
	select {
	case l.asks <- a:
	case <-ctx.Done():
		return false, context.Cause(ctx)
	}
	select {
	case brought := <-a.brought:
		return brought, nil
	case <-ctx.Done():
		return false, context.Cause(ctx)
	}
}

// ask is a claim that somebody wants now.
type ask struct{ brought chan bool }

func (l *Loop) answer(a ask, intake, work context.Context) {
	outcome := l.turn(intake, work)
	a.brought <- outcome == brought || outcome == exhausted
}

// pausedTurn does what a pause does not stop: runs that were claimed before may
// wait for a slot.
func (l *Loop) pausedTurn() outcome {
	l.startHeld()
	return paused
}

// mayClaim asks the gate.
func (l *Loop) mayClaim(intake context.Context) bool {
	if l.cfg.Gate == nil {
		return true
	}
	err := l.askGate(intake)
	if intake.Err() != nil {
		return false
	}
	if err == nil {
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
