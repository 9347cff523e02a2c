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
	byID  map[int]*timer
	count int // started so far
}

type timer struct {
	id    int
	due   time.Time
	order int
	index int // in the queue
}

func (t *timers) add(id int, delay time.Duration) {
	if t.byID == nil {
		t.byID = make(map[int]*timer)
	}
	t.count++
	started := &timer{id: id, due: time.Now().Add(delay), order: t.count}
	t.byID[id] = started
	heap.Push(&t.queue, started)
}

func (t *timers) remove(id int) {
	if stopped, found := t.byID[id]; found {
		delete(t.byID, id)
		heap.Remove(&t.queue, stopped.index)
	}
}

// wait blocks until a timer is due, and returns its id, or an exchange is answered. Without
// either it blocks until ctx ends: nothing else can happen to the job.
func (t *timers) wait(ctx context.Context, answers <-chan answer) (int, *answer, error) {
	var alarm <-chan time.Time
	if len(t.queue) > 0 {
		timer := time.NewTimer(time.Until(t.queue[0].due))
		defer timer.Stop()
		alarm = timer.C
	}
	select {
	case <-alarm:
	case came := <-answers:
		return 0, &came, nil
	case <-ctx.Done():
		return 0, nil, context.Cause(ctx)
	}
	due, _ := heap.Pop(&t.queue).(*timer)
	delete(t.byID, due.id)
	return due.id, nil, nil
}

// timerQueue implements [heap.Interface].
type timerQueue []*timer

func (q timerQueue) Len() int { return len(q) }

func (q timerQueue) Less(i, j int) bool {
	if q[i].due.Equal(q[j].due) {
		return q[i].order < q[j].order
	}
	return q[i].due.Before(q[j].due)
}

func (q timerQueue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].index, q[j].index = i, j
}

func (q *timerQueue) Push(x any) {
	added, _ := x.(*timer)
	added.index = len(*q)
	*q = append(*q, added)
}

func (q *timerQueue) Pop() any {
	end := len(*q) - 1
	last := (*q)[end]
	(*q)[end] = nil
	*q = (*q)[:end]
	return last
}
