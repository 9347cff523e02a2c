package slots

import "fmt"

// State is where a slot is in its life, which goes one way only.
type State uint8

// The states of a slot.
const (
	Claimed  State = iota // reserved for a run that was asked for
	Running               // holds a run
	Released              // given back; this Slot is of no more use
)

// String returns the state's name in lower case.
func (s State) String() string {
	switch s {
	case Claimed:
		return "claimed"
	case Running:
		return "running"
	case Released:
		return "released"
	default:
		return fmt.Sprintf("State(%d)", uint8(s))
	}
}

// Slot is the right to hold one run of a group. It comes from [Pool.Reserve], and
// whoever has it must release it.
type Slot struct {
	pool *Pool

	// Guarded by pool.mu.
	state State
	runID string
}

// Group returns the group that the slot belongs to, for life.
func (s *Slot) Group() Group { return s.pool.group }

// State returns where the slot is in its life.
func (s *Slot) State() State {
	s.pool.mu.Lock()
	defer s.pool.mu.Unlock()
	return s.state
}

// RunID returns the id of the run that the slot holds or held, "" if none.
func (s *Slot) RunID() string {
	s.pool.mu.Lock()
	defer s.pool.mu.Unlock()
	return s.runID
}

// Fill gives the slot to the run that was claimed, and reports whether it did:
// a slot holds one run in its life, so filling it again changes nothing.
func (s *Slot) Fill(runID string) bool {
	s.pool.mu.Lock()
	defer s.pool.mu.Unlock()
	if s.state != Claimed {
		return false
	}
	s.state, s.runID = Running, runID
	s.pool.claimed--
	s.pool.running++
	return true
}

// Release gives the slot back, and reports whether this call did: a slot that
// was released already stays so, and no other is freed in its place. When the
// slot held a run and its pool has an open slot now, [Pool.Freed] is signalled.
func (s *Slot) Release() bool { return s.free(true) }

// Return is Release for the slot of a run that was not executed here after all, so
// that who waits for a run to finish can tell the two apart; see [Pool.Finished].
func (s *Slot) Return() bool { return s.free(false) }

func (s *Slot) free(finished bool) bool {
	held, room := s.release(finished)
	if held == Running && room {
		s.pool.signal()
	}
	return held != Released
}

// release returns the state the slot was in, and whether its pool has an open
// slot after the release.
func (s *Slot) release(finished bool) (was State, room bool) {
	s.pool.mu.Lock()
	defer s.pool.mu.Unlock()
	was = s.state
	switch was {
	case Claimed:
		s.pool.claimed--
	case Running:
		s.pool.running--
		if finished {
			s.pool.finished++
		}
	case Released:
		return was, false
	}
	s.state = Released
	return was, s.pool.openLocked() > 0
}
