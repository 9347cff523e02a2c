package adaptors

import (
	"sync"
	"time"
)

// expiring are values that are good for a while.
type expiring[T any] struct {
	goodFor time.Duration

	mu sync.Mutex
	m  map[string]entry[T]
}

type entry[T any] struct {
	value T
	until time.Time
}

func (e *expiring[T]) get(key string) (T, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	found := e.m[key]
	return found.value, time.Now().Before(found.until)
}

func (e *expiring[T]) put(key string, value T) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.m == nil {
		e.m = make(map[string]entry[T])
	}
	e.m[key] = entry[T]{value: value, until: time.Now().Add(e.goodFor)}
}
