package lightning

import (
	"context"
	"sync"
	"time"

	"github.com/phxworker/phxworker/mockserver/phoenix"
)

// waker tells the joined workers of new runs. A run created starts a timer, if
// none is going; when it fires all workers are told once. So Lightning does
// it, with a timer a worker.
type waker struct {
	debounce time.Duration
	created  chan struct{} // capacity 1

	mu     sync.Mutex // guards what follows
	topics map[*phoenix.Topic]struct{}
	wakes  int64
}

func newWaker(debounce time.Duration) *waker {
	return &waker{
		debounce: debounce, created: make(chan struct{}, 1),
		topics: make(map[*phoenix.Topic]struct{}),
	}
}

func (w *waker) run(ctx context.Context) {
	for {
		select {
		case <-w.created:
		case <-ctx.Done():
			return
		}
		timer := time.NewTimer(w.debounce)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
		select { // what was created meanwhile is told with the rest
		case <-w.created:
		default:
		}
		w.now()
	}
}

// soon tells the workers within the debounce.
func (w *waker) soon() {
	if w.debounce < 0 {
		w.now()
		return
	}
	select {
	case w.created <- struct{}{}:
	default:
	}
}

// now tells the workers at once.
func (w *waker) now() {
	w.mu.Lock()
	w.wakes++
	topics := make([]*phoenix.Topic, 0, len(w.topics))
	for t := range w.topics {
		topics = append(topics, t)
	}
	w.mu.Unlock()
	for _, t := range topics {
		t.Send("work-available", []byte(`{}`))
	}
}

func (w *waker) add(t *phoenix.Topic) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.topics[t] = struct{}{}
}

func (w *waker) remove(t *phoenix.Topic) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.topics, t)
}

func (w *waker) stats() (workers int, wakes int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.topics), w.wakes
}
