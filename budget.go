package phxworker

import (
	"errors"
	"sync"
)

// ErrTooManyErrors says that the worker stopped because [Config.MaxErrors] was
// reached.
var ErrTooManyErrors = errors.New("too many errors, the worker has stopped itself; the log says which")

// budget counts errors, takes one off for each success, and is spent for good
// when there are too many.
type budget struct {
	most  int // 0 for no limit
	spent chan struct{}

	mu     sync.Mutex
	errors int
}

func newBudget(most int) *budget { return &budget{most: most, spent: make(chan struct{})} }

func (b *budget) count(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.most == 0 || b.errors >= b.most:
	case err == nil:
		b.errors = max(0, b.errors-1)
	default:
		b.errors++
		if b.errors == b.most {
			close(b.spent)
		}
	}
}
