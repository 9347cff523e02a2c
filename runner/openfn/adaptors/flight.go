package adaptors

import (
	"context"
	"errors"
	"sync"
)

// flights are pieces of work under way, each shared by all who want it.
type flights[T any] struct {
	running sync.WaitGroup

	mu     sync.Mutex
	m      map[string]*flight[T]
	closed bool // no flight may begin any more
}

// A flight goes on though nobody waits for it any more: an install that takes
// longer than a run may take would never be done otherwise.
type flight[T any] struct {
	cancel context.CancelCauseFunc
	done   chan struct{} // closed after result and err are set
	result T
	err    error

	// The mutex of flights guards these.
	lines []string
	more  chan struct{} // closed and replaced with each line
}

var errClosed = errors.New("adaptors: the repo was closed")

// do returns what work returns, which runs once however many ask for the same
// key meanwhile. It calls progress, on the caller's goroutine, with each line
// that work tells, those from before the call too. The context that work gets
// ends with close alone.
func (fs *flights[T]) do(ctx context.Context, key string, progress func(string), work func(ctx context.Context, tell func(string)) (T, error)) (T, error) {
	f := fs.board(ctx, key, work)
	for told := 0; ; {
		ended := isClosed(f.done) // before the lines are read: there are none after it
		lines, more := fs.linesOf(f)
		for _, line := range lines[told:] {
			progress(line)
		}
		told = len(lines)
		if ended {
			return f.result, f.err
		}
		select {
		case <-more:
		case <-f.done:
		case <-ctx.Done():
			var none T
			return none, context.Cause(ctx)
		}
	}
}

func (fs *flights[T]) board(ctx context.Context, key string, work func(context.Context, func(string)) (T, error)) *flight[T] {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if f, ok := fs.m[key]; ok {
		return f
	}
	if fs.m == nil {
		fs.m = make(map[string]*flight[T])
	}
	f := &flight[T]{done: make(chan struct{}), more: make(chan struct{})}
	if fs.closed {
		f.err = errClosed
		close(f.done)
		return f
	}
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	f.cancel = cancel
	fs.m[key] = f
	fs.running.Go(func() {
		defer cancel(nil)
		f.result, f.err = work(ctx, func(line string) { fs.tell(f, line) })
		fs.remove(key, f)
		close(f.done)
	})
	return f
}

// close ends what is under way, and waits for it.
func (fs *flights[T]) close() {
	fs.mu.Lock()
	fs.closed = true
	for _, f := range fs.m {
		f.cancel(errClosed)
	}
	fs.mu.Unlock()
	fs.running.Wait()
}

func (fs *flights[T]) remove(key string, f *flight[T]) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if fs.m[key] == f {
		delete(fs.m, key)
	}
}

func (fs *flights[T]) tell(f *flight[T], line string) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	f.lines = append(f.lines, line)
	close(f.more)
	f.more = make(chan struct{})
}

// linesOf returns what was told so far, and a channel that is closed when there
// is more.
func (fs *flights[T]) linesOf(f *flight[T]) ([]string, <-chan struct{}) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	return f.lines, f.more
}

func isClosed(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}
