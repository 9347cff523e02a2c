package js

import (
	"container/heap"
	"context"
	"time"
)

// timers are those of one step. Of two that are due at the same time the one
// that was started first comes first.
type timers struct {
	queue timerQueue
	count int // started so far
}

type timer struct {
	id    int
	due   time.Time
	order int
}

func (t *timers) add(id int, delay time.Duration) {
	t.count++
	heap.Push(&t.queue, timer{id: id, due: time.Now().Add(delay), order: t.count})
}

func (t *timers) remove(id int) {
	for i := range t.queue {
		if t.queue[i].id == id {
			heap.Remove(&t.queue, i)
			return
		}
	}
}

// wait blocks until a timer is due and returns its id. Without any timer it
// blocks until ctx ends: nothing else can happen to the job.
func (t *timers) wait(ctx context.Context) (int, error) {
	if len(t.queue) == 0 {
		<-ctx.Done()
		return 0, context.Cause(ctx)
	}
	if rest := time.Until(t.queue[0].due); rest > 0 {
		alarm := time.NewTimer(rest)
		defer alarm.Stop()
		select {
		case <-alarm.C:
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
	}
	return heap.Pop(&t.queue).(timer).id, nil
}

// timerQueue implements [heap.Interface].
type timerQueue []timer

func (q timerQueue) Len() int { return len(q) }
func (q timerQueue) Less(i, j int) bool {
	if q[i].due.Equal(q[j].due) {
		return q[i].order < q[j].order
	}
	return q[i].due.Before(q[j].due)
}
func (q timerQueue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *timerQueue) Push(x any)   { *q = append(*q, x.(timer)) }
func (q *timerQueue) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}
