package lightning

import (
	"sync"

	"github.com/phxworker/phxworker/mockserver/fault"
)

// Change is something that happened. One of the fields besides N says what.
type Change struct {
	// N counts the changes, from 1.
	N uint64
	// Run is a run that was queued, claimed, started, returned or has ended, as it was then.
	Run *Summary
	// Event is the arrival of an event on a run's topic.
	Event *Arrival
	// Fault is what struck.
	Fault *fault.Strike
	// Worker is the worker_id of who has joined worker:queue or has left it.
	Worker string
}

// Arrival says which event came on a run's topic, without its payload.
type Arrival struct {
	Run    string `json:"run"`
	Event  string `json:"event"`
	Status string `json:"status"`
}

// About returns the id of the run that the change is about, empty if it is about none.
func (c Change) About() string {
	switch {
	case c.Run != nil:
		return c.Run.ID
	case c.Event != nil:
		return c.Event.Run
	case c.Fault != nil:
		return c.Fault.Run
	}
	return ""
}

// keptChanges is how many changes can be read later than at once.
const keptChanges = 4096

// feed keeps the last changes for whoever follows them at a pace of their own. So a reader that is
// slow costs nothing, and is told what it has missed.
type feed struct {
	mu   sync.Mutex // guards what follows; nothing else is locked under it
	ring [keptChanges]Change
	last uint64        // number of the last change
	more chan struct{} // closed by the next change; nil when nobody waits for one
}

func (f *feed) add(c Change) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.last++
	c.N = f.last
	f.ring[c.N%keptChanges] = c
	if f.more != nil {
		close(f.more)
		f.more = nil
	}
}

// after returns the changes behind number n that are kept, and what is closed with the next one.
func (f *feed) after(n uint64) (changes []Change, more <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for n = max(n+1, f.last+1-min(f.last, keptChanges)); n <= f.last; n++ {
		changes = append(changes, f.ring[n%keptChanges])
	}
	if f.more == nil {
		f.more = make(chan struct{})
	}
	return changes, f.more
}

// number returns that of the last change.
func (f *feed) number() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.last
}

// ChangesAfter returns the changes behind number n, oldest first, as far as they are kept: the last 4,096. If the first one has
// not the next number, those between are forgotten. more is closed when there are others.
func (s *Service) ChangesAfter(n uint64) (changes []Change, more <-chan struct{}) {
	return s.feed.after(n)
}

// LastChange returns the number of the last change.
func (s *Service) LastChange() uint64 { return s.feed.number() }

// Done is closed when the service is.
func (s *Service) Done() <-chan struct{} { return s.closed }

// tellLocked tells what a run is now.
func (s *Service) tellLocked(r *Entry) {
	summary := r.summaryLocked()
	s.feed.add(Change{Run: &summary})
}
