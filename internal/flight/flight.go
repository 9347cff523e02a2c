// Package flight shares work that takes long among all who want it, with the lines that it tells meanwhile. Work goes on
// though nobody waits for it any more, for what takes longer than a run may take would never be done otherwise.
package flight

import (
	"context"
	"errors"
	"sync"
)

// Group is pieces of work under way. The zero value is ready to use, concurrently; Close it.
type Group[T any] struct {
	running sync.WaitGroup

	mu     sync.Mutex
	m      map[string]*flight[T]
	closed bool // no flight may begin any more
}

// flight is one piece of work.
type flight[T any] struct {
	cancel context.CancelCauseFunc
	done   chan struct{} // closed after result and err are set
	result T
	err    error

	// The mutex of the group guards these.
	lines []string
	more  chan struct{} // closed and replaced with each line
}

// ErrClosed is the cause with which Close ends what is under way.
var ErrClosed = errors.New("it was ended, since the worker stops")

// Do returns what work returns, which runs once however many ask for the same
// key meanwhile. It calls progress, on the caller's goroutine, with each line
// that work tells, those from before the call too; nil is for nobody. The context that work gets
// ends with Close alone. The error is that of work, or the cause of the end of ctx.
func (fs *Group[T]) Do(ctx context.Context, key string, progress func(string), work func(ctx context.Context, tell func(string)) (T, error)) (T, error) {
	f := fs.board(ctx, key, work)
	for told := 0; ; {
		ended := isClosed(f.done) // before the lines are read: there are none after it
		lines, more := fs.linesOf(f)
		for _, line := range lines[told:] {
			if progress != nil {
				progress(line)
			}
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

func (fs *Group[T]) board(ctx context.Context, key string, work func(context.Context, func(string)) (T, error)) *flight[T] {
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
		f.err = ErrClosed
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

// Close ends what is under way, and waits for it. What is asked for later fails with [ErrClosed].
func (fs *Group[T]) Close() {
	fs.mu.Lock()
	fs.closed = true
	for _, f := range fs.m {
		f.cancel(ErrClosed)
	}
	fs.mu.Unlock()
	fs.running.Wait()
}

func (fs *Group[T]) remove(key string, f *flight[T]) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if fs.m[key] == f {
		delete(fs.m, key)
	}
}

func (fs *Group[T]) tell(f *flight[T], line string) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	f.lines = append(f.lines, line)
	close(f.more)
	f.more = make(chan struct{})
}

// linesOf returns what was told so far, and a channel that is closed when there
// is more.
func (fs *Group[T]) linesOf(f *flight[T]) ([]string, <-chan struct{}) {
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
