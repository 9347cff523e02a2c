package extended

import (
	"container/heap"
	"time"
)

// agenda is what the passing of time will do. Service.Lock guards it.
type agenda struct{ due deadlines }

// deadline is one thing on the agenda.
type deadline struct {
	at    time.Time
	do    func(now time.Time) // called with Service.Lock held
	index int                 // in the heap, or done
}

// done is the index of a deadline that is not on the agenda any more.
const done = -1

func (a *agenda) add(at time.Time, do func(now time.Time)) *deadline {
	d := &deadline{at: at, do: do}
	heap.Push(&a.due, d)
	return d
}

// drop takes a deadline off the agenda, if it is there; nil never is.
func (a *agenda) drop(d *deadline) {
	if d != nil && d.index != done {
		heap.Remove(&a.due, d.index)
	}
}

// pass does what is due, and returns when the next is; the zero time if nothing is.
func (a *agenda) pass(now time.Time) (next time.Time) {
	for len(a.due) > 0 {
		d := a.due[0]
		if d.at.After(now) {
			return d.at
		}
		heap.Pop(&a.due)
		d.do(now)
	}
	return time.Time{}
}

// deadlines is a heap, the earliest first.
type deadlines []*deadline

var _ heap.Interface = (*deadlines)(nil)

func (h deadlines) Len() int           { return len(h) }
func (h deadlines) Less(i, j int) bool { return h[i].at.Before(h[j].at) }

func (h deadlines) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

// Push implements [heap.Interface].
func (h *deadlines) Push(v any) {
	d := v.(*deadline)
	d.index = len(*h)
	*h = append(*h, d)
}

// Pop implements [heap.Interface].
func (h *deadlines) Pop() any {
	last := len(*h) - 1
	d := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	d.index = done
	return d
}
