package phxworker

import "sync"

// signal is something that happens once.
type signal struct {
	raised chan struct{} // closed when it has happened
	once   sync.Once
}

func newSignal() *signal { return &signal{raised: make(chan struct{})} }

// raise makes it happen. It may be called again.
func (s *signal) raise() { s.once.Do(func() { close(s.raised) }) }
