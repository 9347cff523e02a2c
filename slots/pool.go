package slots

import (
	"fmt"
	"sync"
)

// Pool counts the slots of one group.
type Pool struct {
	group Group
	freed chan struct{} // capacity one: signals coalesce

	mu      sync.Mutex // guards what is below, and the state of every Slot
	size    int
	claimed int
	running int
	// finished counts the runs that were released.
	finished uint64
}

// Counts is a pool at one moment.
type Counts struct {
	Size    int `json:"slots"`   // slots in all
	Open    int `json:"open"`    // free to be reserved; 0 while more are in use than Size
	Claimed int `json:"claimed"` // reserved for runs that were asked for
	Running int `json:"running"` // held by runs
}

// NewPool returns a pool of g.Slots open slots. Less than none counts as none.
func NewPool(g Group) *Pool {
	return &Pool{group: g, size: max(g.Slots, 0), freed: make(chan struct{}, 1)}
}

// Group returns the group as it was given to [NewPool]. Its size may have
// changed since: see [Pool.Counts].
func (p *Pool) Group() Group { return p.group }

// Reserve takes an open slot, and reports whether there was one.
func (p *Pool) Reserve() (*Slot, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.openLocked() == 0 {
		return nil, false
	}
	p.claimed++
	return &Slot{pool: p}, true
}

// Counts returns the numbers of one moment; they add up.
func (p *Pool) Counts() Counts {
	p.mu.Lock()
	defer p.mu.Unlock()
	return Counts{Size: p.size, Open: p.openLocked(), Claimed: p.claimed, Running: p.running}
}

// Finished returns how many runs have released their slots. A slot that was
// returned does not count.
func (p *Pool) Finished() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.finished
}

// Resize changes the number of slots to n; less than none counts as none. Slots
// in use are not taken away: when there are more of them than n, nothing can be
// reserved until enough were released. A pool that has open slots after it grew
// signals [Pool.Freed].
func (p *Pool) Resize(n int) {
	p.mu.Lock()
	grew := n > p.size
	p.size = max(n, 0)
	room := grew && p.openLocked() > 0
	p.mu.Unlock()
	if room {
		p.signal()
	}
}

// Freed returns the channel that receives after a run of this pool released its
// slot and left one open, or after the pool grew. It holds one signal, however
// many there were since the last receive. It is meant for one receiver, the
// claim loop of the group, and is never closed.
func (p *Pool) Freed() <-chan struct{} { return p.freed }

func (p *Pool) openLocked() int {
	return max(p.size-p.claimed-p.running, 0)
}

func (p *Pool) signal() {
	select {
	case p.freed <- struct{}{}:
	default:
	}
}

// State is where a slot is in its life, which goes one way only.
type State uint8

// The states of a slot.
const (
	Claimed  State = iota // reserved for a run that was asked for
	Running               // holds a run
	Released              // free again; this Slot is of no more use
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

// Release frees the slot, and reports whether this call did: a slot that
// was released already stays so, and no other is freed in its place. When the
// slot held a run and its pool has an open slot now, [Pool.Freed] is signalled.
func (s *Slot) Release() bool { return s.free(true) }

// Return is Release for the slot of a run that was not executed here after all, so
// that who waits for a run to finish can tell the two apart; see [Pool.Finished].
func (s *Slot) Return() bool { return s.free(false) }

func (s *Slot) free(finished bool) bool {
	s.pool.mu.Lock()
	was := s.state
	s.state = Released
	switch was {
	case Claimed:
		s.pool.claimed--
	case Running:
		s.pool.running--
		if finished {
			s.pool.finished++
		}
	case Released:
	}
	room := s.pool.openLocked() > 0
	s.pool.mu.Unlock()
	if was == Running && room {
		s.pool.signal()
	}
	return was != Released
}
