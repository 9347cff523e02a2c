package lightning

// wildcard stands, in a claim, for every queue the claim does not name.
const wildcard = "*"

// queues holds the available runs, by queue and priority, each in the order of
// insertion, so that a claim never looks at a run it does not take. It is not
// safe for concurrent use.
type queues struct {
	byName map[string]*lanes
	size   int
}

// lanes are the runs of one queue by priority.
type lanes [2]fifo

type fifo struct {
	runs []*run
	head int
}

func newQueues() queues { return queues{byName: make(map[string]*lanes)} }

func (q *queues) push(r *run) {
	l := q.byName[r.queue]
	if l == nil {
		l = new(lanes)
		q.byName[r.queue] = l
	}
	l[r.priority].push(r)
	q.size++
}

// take removes up to demand runs, in the order in which the claim prefers them.
//
// With the wildcard among the names their order counts before all else. Without
// it they are a mere filter. Then come priority and insertion.
func (q *queues) take(demand int, names []string) []*run {
	var taken []*run
	for _, match := range ranks(names) {
		for len(taken) < demand {
			r := q.next(match)
			if r == nil {
				break
			}
			taken = append(taken, r)
		}
	}
	return taken
}

// next removes the first run by priority and insertion among the queues that match.
func (q *queues) next(match func(name string) bool) *run {
	var best *fifo
	for name, l := range q.byName {
		if !match(name) {
			continue
		}
		for _, p := range []Priority{Immediate, Normal} {
			r := l[p].first()
			if r == nil {
				continue
			}
			if best == nil || before(r, best.first()) {
				best = &l[p]
			}
			break
		}
	}
	if best == nil {
		return nil
	}
	q.size--
	return best.pop()
}

func before(a, b *run) bool {
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

func (f *fifo) push(r *run) { f.runs = append(f.runs, r) }

func (f *fifo) len() int { return len(f.runs) - f.head }

func (f *fifo) first() *run {
	if f.head == len(f.runs) {
		return nil
	}
	return f.runs[f.head]
}

func (f *fifo) pop() *run {
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
