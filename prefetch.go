package phxworker

import (
	"sync"

	"github.com/phxworker/phxworker/claim"
	"github.com/phxworker/phxworker/runner"
	"github.com/phxworker/phxworker/slots"
)

var _ claim.Prefetcher = (*starter)(nil)

// CanPrefetch implements [claim.Prefetcher].
func (s *starter) CanPrefetch() bool { return s.queue.canRelease() }

// Prefetch implements [claim.Prefetcher]: the run's topic is joined and its plan
// fetched. The dataclip is not: a server may erase it once it was read, and the
// run may yet go to another worker.
func (s *starter) Prefetch(run claim.Run, group slots.Group) claim.Ahead {
	a := &ahead{begin: make(chan error, 2), over: make(chan struct{})}
	s.turnstile.verified()
	s.turnstile.leave(group.Name) // it waits for a slot, and could be given back
	this := newUnderway(run, group.Name)
	s.done.Go(func() {
		settled := runner.Unsettled
		defer func() { a.end(settled) }() // whatever ends the goroutine
		settled = s.execute(this, a.begin)
	})
	return a
}

// ahead is a run without a slot.
type ahead struct {
	// begin has room for a word to give the run back and one to go on. Only the
	// loop sends.
	begin chan error
	over  chan struct{} // closed when the run has ended without a slot

	mu      sync.Mutex
	slot    *slots.Slot
	ended   bool
	settled Settlement
}

// Start implements [claim.Ahead].
func (a *ahead) Start(slot *slots.Slot) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ended { // it had ended without a slot: its plan could not be read, or it was cancelled
		giveBackSlot(slot, a.settled)
		return
	}
	a.slot = slot
	a.begin <- nil
}

// Release implements [claim.Ahead].
func (a *ahead) Release() {
	if len(a.begin) == 0 { // else it was not heard yet
		a.begin <- runner.ErrTooLong
	}
}

// Over implements [claim.Ahead].
func (a *ahead) Over() <-chan struct{} { return a.over }

func (a *ahead) end(settled Settlement) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ended, a.settled = true, settled
	if a.slot == nil {
		close(a.over)
		return
	}
	giveBackSlot(a.slot, settled)
}
