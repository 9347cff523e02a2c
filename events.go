package phxworker

import (
	"slices"
	"sync"
	"time"
)

// EventKind is what an [Event] is about.
type EventKind string

// The kinds of events.
const (
	EventConnected   EventKind = "connected"       // a connection to the server was made
	EventLost        EventKind = "connection_lost" // a connection was lost or a dial failed; see Err
	EventClaimed     EventKind = "run_claimed"     // the server gave a run
	EventStarted     EventKind = "run_started"     // the engine began to execute the run
	EventCompleted   EventKind = "run_completed"   // the run is over and was reported; see Result
	EventUndelivered EventKind = "run_undelivered" // the run is over and could not be reported; see Result
	EventReturned    EventKind = "run_returned"    // the run is in the server's queue again; see Result
	EventLeaseLost   EventKind = "run_lease_lost"  // the run is another worker's now; see Result
	EventPaused      EventKind = "group_paused"    // the group claims no more
	EventResumed     EventKind = "group_resumed"   // the group claims again
	EventUnable      EventKind = "unable"          // the worker claims nothing until it can execute runs again; see Err
	EventAble        EventKind = "able"            // the worker can execute runs again
	EventDraining    EventKind = "draining"        // the worker claims no more, and ends when its runs do
)

// Event is something that happened to a worker.
type Event struct {
	Kind EventKind
	At   time.Time
	// Group is the slot group of a run, or the one paused or resumed.
	Group string
	// RunID is empty for an event that is not about a run.
	RunID string
	// Result is how a run ended; nil for other events.
	Result *RunResult
	// Err is why there is no connection, or why nothing is claimed.
	Err error
	// Missed is how many events just before this one did not fit into the buffer.
	Missed int
}

// Subscription is a stream of events to one reader.
type Subscription struct {
	feed   *feed
	events chan Event
	missed int // guarded by feed.mu
}

// Events returns the events since the subscription, in the order in which they happened. An event of
// the connection may come a moment after the first events that it made possible. The channel is closed
// when the worker has stopped or the subscription was closed.
func (s *Subscription) Events() <-chan Event { return s.events }

// Close ends the subscription. It may be called again.
func (s *Subscription) Close() {
	s.feed.mu.Lock()
	defer s.feed.mu.Unlock()
	if i := slices.Index(s.feed.subscriptions, s); i >= 0 {
		s.feed.subscriptions = slices.Delete(s.feed.subscriptions, i, i+1)
		close(s.events)
	}
}

// Subscribe returns the worker's events. It may be called at any time, also before [Worker.Run]. The
// worker never waits for a reader: it leaves out events that do not fit into the buffer, and the next
// one has their number in Missed.
func (w *Worker) Subscribe(buffer int) *Subscription {
	s := &Subscription{feed: &w.feed, events: make(chan Event, max(buffer, 1))}
	s.feed.mu.Lock()
	defer s.feed.mu.Unlock()
	if s.feed.ended {
		close(s.events)
		return s
	}
	s.feed.subscriptions = append(s.feed.subscriptions, s)
	return s
}

// feed passes events on to subscriptions.
type feed struct {
	mu            sync.Mutex
	ended         bool
	subscriptions []*Subscription
}

func (f *feed) publish(e Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	e.At = time.Now() // under the lock, so that the times are in order
	for _, s := range f.subscriptions {
		e.Missed = s.missed
		select {
		case s.events <- e:
			s.missed = 0
		default:
			s.missed++
		}
	}
}

// end closes all subscriptions, also those to come.
func (f *feed) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ended = true
	for _, s := range f.subscriptions {
		close(s.events)
	}
	f.subscriptions = nil
}
