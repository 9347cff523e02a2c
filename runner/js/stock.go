package js

import "sync"

// stock makes VMs ahead of the steps that will need them, while there is time: each takes longer to be made than most steps
// to be executed. A VM executes one step, or the conditions of one run, and is closed; what stands ready has run the
// prelude and nothing else. Its methods may be called concurrently.
type stock struct {
	prelude *prelude

	mu      sync.Mutex
	ready   []*sandbox
	inUse   int
	most    int  // that were in use at a time, and so as many as are kept ready
	working bool // a goroutine closes and makes VMs
	closed  bool
}

const (
	// mostReady bounds the memory that VMs take which nobody uses yet, of some 0.4 MB each.
	mostReady = 16
	// largeVM is the memory of a VM, in bytes, that is not to be held until somebody has time to close it.
	largeVM = 4 << 20
)

// take returns a VM whose code may allocate memory bytes, no matter how many when 0. It goes back by [stock.discard].
func (s *stock) take(memory uint64, host hostFunc) (*sandbox, error) {
	s.mu.Lock()
	s.inUse++
	s.most = min(max(s.most, s.inUse), mostReady)
	var box *sandbox
	if last := len(s.ready) - 1; last >= 0 {
		box, s.ready = s.ready[last], s.ready[:last]
	}
	s.mu.Unlock()
	if box == nil {
		var err error
		if box, err = newSandbox(s.prelude); err != nil {
			s.mu.Lock()
			s.inUse--
			s.mu.Unlock()
			return nil, err
		}
	}
	box.open(memory, host)
	return box, nil
}

// discard closes a VM, and has others made in its place. Both happen beside the run, one VM after the other; while that goes
// on, others are closed as they come, so that a worker that has no time for it does not fall behind.
func (s *stock) discard(box *sandbox) {
	s.mu.Lock()
	s.inUse--
	beside := !s.working && !s.closed && box.watch.allocated() < largeVM
	s.working = s.working || beside
	s.mu.Unlock()
	if !beside {
		box.close()
		return
	}
	go func() {
		defer func() {
			_ = recover() // a VM that cannot be closed is left behind, and no run falls with it
			s.mu.Lock()
			s.working = false
			s.mu.Unlock()
		}()
		growStack()
		box.close()
		s.fill()
	}()
}

// fill makes what is missing. What cannot be made is no loss: the step that needs it will say so.
func (s *stock) fill() {
	for s.lacks() {
		box, err := newSandbox(s.prelude)
		if err != nil {
			return
		}
		s.keep(box)
	}
}

func (s *stock) lacks() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.closed && len(s.ready) < s.most
}

// keep puts a VM that nobody has used to those that are ready, if there is need of one.
func (s *stock) keep(box *sandbox) {
	s.mu.Lock()
	needed := !s.closed && len(s.ready) < max(s.most, 1)
	if needed {
		s.ready = append(s.ready, box)
	}
	s.mu.Unlock()
	if !needed {
		box.close()
	}
}

// check makes a VM; the first step has it.
func (s *stock) check() error {
	box, err := newSandbox(s.prelude)
	if err == nil {
		s.keep(box)
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
