package js

import "sync"

// stock has the VMs that no step uses, for those that will need one: to make one takes longer than most steps. A VM that comes back is
// what it was before its first step. Its methods may be called concurrently.
type stock struct {
	prelude *prelude

	mu     sync.Mutex
	ready  []*sandbox
	closed bool
}

// mostReady bounds the memory that VMs take which nobody uses, of some 0.6 MB each.
const mostReady = 16

// take returns a VM whose code may allocate memory bytes, no matter how many when 0. It goes back by [stock.discard].
func (s *stock) take(memory uint64, host hostFunc) (*sandbox, error) {
	s.mu.Lock()
	var box *sandbox
	if last := len(s.ready) - 1; last >= 0 {
		box, s.ready = s.ready[last], s.ready[:last]
	}
	s.mu.Unlock()
	if box == nil {
		var err error
		if box, err = newSandbox(s.prelude); err != nil {
			return nil, err
		}
	}
	box.open(memory, host)
	return box, nil
}

// discard takes a VM back. One that cannot be made what it was is closed, and so is one too many.
func (s *stock) discard(box *sandbox) {
	kept := box.reset()
	s.mu.Lock()
	if kept = kept && !s.closed && len(s.ready) < mostReady; kept {
		s.ready = append(s.ready, box)
	}
	s.mu.Unlock()
	if !kept {
		box.close()
	}
}

// check makes sure that the first step has a VM.
func (s *stock) check() error {
	box, err := s.take(0, nil)
	if err == nil {
		s.discard(box)
	}
	return err
}

// close closes what is ready, and all that comes back: the memory of VMs is not Go's.
func (s *stock) close() {
	s.mu.Lock()
	ready := s.ready
	s.ready, s.closed = nil, true
	s.mu.Unlock()
	for _, box := range ready {
		box.close()
	}
}
