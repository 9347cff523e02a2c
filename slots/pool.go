package slots

import "sync"

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
	Size    int // slots in all
	Open    int // free to be reserved; 0 while more are in use than Size
	Claimed int // reserved for runs that were asked for
	Running int // held by runs
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
