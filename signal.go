package phxworker

import (
	"errors"
	"sync"
)

// signal is something that happens once.
type signal struct {
	raised chan struct{} // closed once it has happened
	once   sync.Once
}

func newSignal() *signal { return &signal{raised: make(chan struct{})} }

// raise makes it happen. It may be called again.
func (s *signal) raise() { s.once.Do(func() { close(s.raised) }) }

// ErrTooManyErrors says that the worker stopped because of [Config.MaxErrors].
var ErrTooManyErrors = errors.New("too many errors, the worker has stopped itself; the log says which")

// budget counts errors and takes one off for each success. When there are most of them, it is spent for
// good.
type budget struct {
	most  int // 0 is no limit
	spent *signal

	mu     sync.Mutex
	errors int
}

func newBudget(most int) *budget { return &budget{most: most, spent: newSignal()} }

func (b *budget) count(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.most == 0 || b.errors >= b.most:
	case err == nil:
		b.errors = max(0, b.errors-1)
	default:
		if b.errors++; b.errors == b.most {
			b.spent.raise()
		}
	}
}
