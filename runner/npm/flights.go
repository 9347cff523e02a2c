package npm

import (
	"context"
	"sync"
)

// flights are pieces of work, each done once for all who want it. A failure is
// remembered as well, but for that of who did the work and went away.
type flights[T any] struct {
	mu sync.Mutex
	m  map[string]*flight[T]
}

type flight[T any] struct {
	done   chan struct{} // closed after value and err are set
	value  T
	err    error
	undone bool // its context was over
}

func (fs *flights[T]) do(ctx context.Context, key string, work func() (T, error)) (T, error) {
	for {
		fs.mu.Lock()
		f, running := fs.m[key]
		if !running {
			f = &flight[T]{done: make(chan struct{})}
			if fs.m == nil {
				fs.m = make(map[string]*flight[T])
			}
			fs.m[key] = f
		}
		fs.mu.Unlock()
		if !running {
			f.value, f.err = work()
			if f.undone = ctx.Err() != nil; f.undone {
				fs.mu.Lock()
				delete(fs.m, key)
				fs.mu.Unlock()
			}
			close(f.done)
			return f.value, f.err
		}
		select {
		case <-f.done:
		case <-ctx.Done():
			var none T
			return none, context.Cause(ctx)
		}
		if !f.undone {
			return f.value, f.err
		}
	}
}
