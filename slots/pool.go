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
	finished uint64 // how many runs have ended and were not returned
}

// Counts is a pool at one moment.
type Counts struct {
	Size    int `json:"slots"`   // slots in all
	Open    int `json:"open"`    // can be reserved; 0 while more slots are in use than Size
	Claimed int `json:"claimed"` // reserved for a claim
	Running int `json:"running"` // held by runs
}

// NewPool returns a pool of g.Slots open slots; of none if that is negative.
func NewPool(g Group) *Pool {
	return &Pool{group: g, size: max(g.Slots, 0), freed: make(chan struct{}, 1)}
}

// Group returns the group that [NewPool] was given. [Pool.Resize] does not change it.
func (p *Pool) Group() Group { return p.group }

// Reserve reserves an open slot, and reports whether there was one.
func (p *Pool) Reserve() (*Slot, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.openLocked() == 0 {
		return nil, false
	}
	p.claimed++
	return &Slot{pool: p}, true
}

// Counts returns the numbers of one moment, which fit together.
func (p *Pool) Counts() Counts {
	p.mu.Lock()
	defer p.mu.Unlock()
	return Counts{Size: p.size, Open: p.openLocked(), Claimed: p.claimed, Running: p.running}
}

// Finished returns how many runs of the pool have ended. A run that was returned to the queue does not
// count.
func (p *Pool) Finished() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.finished
}

// Resize changes the number of slots to n, or to 0 if n is negative. It takes away no slot that is in
// use: when more than n are, nothing can be reserved until enough were freed. A pool that has grown and
// has an open slot signals [Pool.Freed].
func (p *Pool) Resize(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	grew := n > p.size
	p.size = max(n, 0)
	if grew {
		p.signalLocked()
	}
}

// Freed returns a channel that receives when the slot of a run was freed, or the pool has grown, and a
// slot is open. It holds one signal, however many there were since the last receive. It is for one
// receiver, the claim loop of the group, and is never closed.
func (p *Pool) Freed() <-chan struct{} { return p.freed }

func (p *Pool) openLocked() int {
	return max(p.size-p.claimed-p.running, 0)
}

// signalLocked signals Freed if a slot is open.
func (p *Pool) signalLocked() {
	if p.openLocked() == 0 {
		return
	}
	select {
	case p.freed <- struct{}{}:
	default:
	}
}

// Slot is the room for one run of a group. It comes from [Pool.Reserve], and its holder must free it.
type Slot struct {
	pool  *Pool
	state state // guarded by pool.mu
}

// state is where a slot is in its life, which goes one way only.
type state uint8

const (
	claimed state = iota // reserved for a claim
	running              // holds a run
	freed                // open for another Slot; this one is of no more use
)

// Group returns the group that the slot belongs to, for life.
func (s *Slot) Group() Group { return s.pool.group }

// Fill gives the slot to a run, and reports whether it did. A slot holds one run in its life: filling
// it again changes nothing.
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

// Free frees the slot, and reports whether this call did; a second call changes nothing. When the slot
// held a run and its pool has an open slot now, it signals [Pool.Freed].
func (s *Slot) Free() bool { return s.free(true) }

// FreeReturned is Free for the slot of a run that was returned to the queue: the run does not count in
// [Pool.Finished].
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
