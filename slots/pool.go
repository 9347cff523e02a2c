package slots

import "sync"

// Pool counts the slots of one group.
type Pool struct {
	group Group
	freed chan struct{} // capacity one: signals coalesce

	mu       sync.Mutex // guards what is below, and the state of every slot
	size     int
	claimed  int
	running  int
	finished uint64 // runs that ended here
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

// Finished returns how many runs have ended here. One that was returned to the
// queue does not count.
func (p *Pool) Finished() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.finished
}

// Resize changes the number of slots to n; less than none counts as none. Slots
// in use are not taken away: when there are more of them than n, nothing can be
// reserved until enough were freed. A pool that has open slots after it grew
// signals [Pool.Freed].
func (p *Pool) Resize(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	grew := n > p.size
	p.size = max(n, 0)
	if grew {
		p.signalLocked()
	}
}

// Freed returns the channel that receives when the slot of a run was freed and one is
// open, or when the pool grew. It holds one signal, however many there were since the
// last receive. It is meant for one receiver, the claim loop of the group, and is
// never closed.
func (p *Pool) Freed() <-chan struct{} { return p.freed }

func (p *Pool) openLocked() int {
	return max(p.size-p.claimed-p.running, 0)
}

// signalLocked tells that there may be room, if there is.
func (p *Pool) signalLocked() {
	if p.openLocked() == 0 {
		return
	}
	select {
	case p.freed <- struct{}{}:
	default:
	}
}

// Slot is the right to hold one run of a group. It comes from [Pool.Reserve], and
// whoever has it must free it.
type Slot struct {
	pool  *Pool
	state state // guarded by pool.mu
}

// state is where a slot is in its life, which goes one way only.
type state uint8

const (
	claimed state = iota // reserved for a run that was asked for
	running              // holds a run
	freed                // open again; this Slot is of no more use
)

// Group returns the group that the slot belongs to, for life.
func (s *Slot) Group() Group { return s.pool.group }

// Fill gives the slot to the run that was claimed, and reports whether it did:
// a slot holds one run in its life, so filling it again changes nothing.
func (s *Slot) Fill() bool {
	s.pool.mu.Lock()
	defer s.pool.mu.Unlock()
	if s.state != claimed {
		return false
	}
	s.state = running
	s.pool.claimed--
	s.pool.running++
	return true
}

// Free opens the slot for another run, and reports whether this call did: a second
// one changes nothing. When the slot held a run and its pool has an open slot now,
// [Pool.Freed] is signalled.
func (s *Slot) Free() bool { return s.free(true) }

// FreeReturned is Free for the slot of a run that was returned to the queue, which
// does not count as one that finished; see [Pool.Finished].
func (s *Slot) FreeReturned() bool { return s.free(false) }

func (s *Slot) free(finished bool) bool {
	s.pool.mu.Lock()
	defer s.pool.mu.Unlock()
	was := s.state
	s.state = freed
	switch was {
	case claimed:
		s.pool.claimed--
	case running:
		s.pool.running--
		if finished {
			s.pool.finished++
		}
		s.pool.signalLocked()
	case freed:
	}
	return was != freed
}
