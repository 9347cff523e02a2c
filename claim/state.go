package claim

import (
	"fmt"
	"time"
)

// State is what a loop does, or waits for.
type State uint8

// The states of a loop. Where several apply, it is the first of them.
const (
	Idle     State = iota // it does not run
	Paused                // it is to claim nothing
	Full                  // no slot is open
	Unready               // the [Claimer] is not ready, as there is no connection
	Claiming              // it asks the gate, or has put a claim
	Resting               // it got nothing but runs that come back again and again
	Waiting               // the claim before brought none, so it pauses
)

// String returns the state's name in lower case.
func (s State) String() string {
	switch s {
	case Idle:
		return "idle"
	case Paused:
		return "paused"
	case Full:
		return "full"
	case Unready:
		return "not ready"
	case Claiming:
		return "claiming"
	case Resting:
		return "resting"
	case Waiting:
		return "waiting"
	default:
		return fmt.Sprintf("State(%d)", uint8(s))
	}
}

// State returns what the loop does just now. It may be called at any time.
func (l *Loop) State() State { return State(l.state.Load()) } //nolint:gosec // what enter stored

// enter is the only place where the state changes.
func (l *Loop) enter(next State) {
	last := l.State()
	l.state.Store(uint32(next))
	if next != last && (last == Full || last == Paused) {
		// The claim that follows was not held up by the server, so it answers no wake-up.
		l.takeWakeUp()
		l.woken = time.Time{}
	}
}

// takeWakeUp takes the wake-up that is there, if one is.
func (l *Loop) takeWakeUp() {
	select {
	case l.woken = <-l.wakeups:
	default:
	}
}

// forgetSignals takes the signals of what the next claim will see by itself: one that
// is sent after a wake-up answers it.
func (l *Loop) forgetSignals() {
	l.takeWakeUp()
	select {
	case <-l.cfg.Pool.Freed():
		l.pace.reset()
	default:
	}
	select {
	case <-l.resumed:
	default:
	}
}
