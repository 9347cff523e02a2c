package lightning

import (
	"cmp"
	"slices"
)

// wildcard stands, in a claim, for every queue the claim does not name.
const wildcard = "*"

// queues holds the available runs, by queue and priority, each in the order of
// insertion, so that a claim never looks at a run it does not take, unless runs
// are kept for others. It is not safe for concurrent use.
type queues struct {
	byName map[string]*lanes
	size   int
}

// lanes are the runs of one queue by priority.
type lanes [2]fifo

type fifo struct {
	runs []*Entry
	head int
}

func newQueues() queues { return queues{byName: make(map[string]*lanes)} }

// push adds a run, at the end if it is new and else at the place it once had.
func (q *queues) push(r *Entry) {
	l := q.byName[r.queue]
	if l == nil {
		l = new(lanes)
		q.byName[r.queue] = l
	}
	l[r.priority].insert(r)
	q.size++
}

// remove takes out a run, if it is there.
func (q *queues) remove(r *Entry) {
	if l := q.byName[r.queue]; l != nil && l[r.priority].remove(r) {
		q.size--
	}
}

// take removes up to demand runs, in the order in which the claim prefers them.
//
// With the wildcard among the names their order counts before all else. Without
// it they are a mere filter. Then come priority and insertion. Runs that are not
// for the one who claims are passed over; for nil, all are.
func (q *queues) take(demand int, names []string, isFor func(*Entry) bool) []*Entry {
	var taken []*Entry
	for _, match := range ranks(names) {
		for len(taken) < demand {
			r := q.next(match, isFor)
			if r == nil {
				break
			}
			taken = append(taken, r)
		}
	}
	return taken
}

// next removes the first run by priority and insertion among the queues that match.
func (q *queues) next(match func(name string) bool, isFor func(*Entry) bool) *Entry {
	var best *Entry
	for name, l := range q.byName {
		if !match(name) {
			continue
		}
		for _, p := range []Priority{Immediate, Normal} {
			r := l[p].first(isFor)
			if r == nil {
				continue
			}
			if best == nil || before(r, best) {
				best = r
			}
			break
		}
	}
	if best != nil {
		q.remove(best)
	}
	return best
}

func before(a, b *Entry) bool {
	if a.priority != b.priority {
		return a.priority == Immediate
	}
	return a.seq < b.seq
}

// ranks turns the names of a claim into tests for queues, the preferred first.
func ranks(names []string) []func(string) bool {
	named := make(map[string]bool, len(names))
	for _, n := range names {
		named[n] = true
	}
	if !named[wildcard] {
		return []func(string) bool{func(q string) bool { return named[q] }}
	}
	tests := make([]func(string) bool, len(names))
	for i, n := range names {
		if n == wildcard {
			tests[i] = func(q string) bool { return !named[q] }
		} else {
			tests[i] = func(q string) bool { return q == n }
		}
	}
	return tests
}

func (f *fifo) push(r *Entry) { f.runs = append(f.runs, r) }

// insert adds a run where its number has it, which nearly always is the end. All
// others must have been inserted, too.
func (f *fifo) insert(r *Entry) {
	if n := len(f.runs); n == f.head || f.runs[n-1].seq < r.seq {
		f.push(r)
		return
	}
	at, _ := f.search(r.seq)
	f.runs = slices.Insert(f.runs, at, r)
}

// search returns where a run of that number is or would be.
func (f *fifo) search(seq uint64) (at int, found bool) {
	at, found = slices.BinarySearchFunc(f.runs[f.head:], seq, func(r *Entry, seq uint64) int { return cmp.Compare(r.seq, seq) })
	return f.head + at, found
}

func (f *fifo) len() int { return len(f.runs) - f.head }

// first returns the first run that is for the one who asks.
func (f *fifo) first(isFor func(*Entry) bool) *Entry {
	for _, r := range f.runs[f.head:] {
		if isFor == nil || isFor(r) {
			return r
		}
	}
	return nil
}

func (f *fifo) remove(r *Entry) bool {
	at, found := f.search(r.seq)
	switch {
	case !found:
		return false
	case at == f.head:
		f.pop()
	default:
		f.runs = slices.Delete(f.runs, at, at+1)
	}
	return true
}

func (f *fifo) pop() *Entry {
	r := f.runs[f.head]
	f.runs[f.head] = nil
	f.head++
	if f.head == len(f.runs) {
		*f = fifo{runs: f.runs[:0]}
	} else if f.head > 1024 && f.head > len(f.runs)/2 {
		// A queue that never empties must not grow for ever.
		n := copy(f.runs, f.runs[f.head:])
		clear(f.runs[n:])
		*f = fifo{runs: f.runs[:n]}
	}
	return r
}
