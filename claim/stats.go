package claim

import "time"

// Stats is what a loop has done since it was made.
type Stats struct {
	State State `json:"state"`
	// Claims are those that were put and are over.
	Claims Claims `json:"claims"`
	// HeldBack counts claims that were not made, because the gate said no.
	HeldBack uint64 `json:"held_back"`
	// Started counts the runs that were handed to the [Starter].
	Started uint64 `json:"started"`
	// Refused counts runs that were not started because of their token.
	Refused uint64 `json:"refused"`
	// Prefetched counts runs that were claimed ahead, and PrefetchReturned those of them that
	// waited too long for a slot and were returned.
	Prefetched       uint64 `json:"prefetched"`
	PrefetchReturned uint64 `json:"prefetch_returned"`
	// Held counts runs that had to wait for a slot, as more came than were asked for.
	Held uint64 `json:"held"`
	// Wakes counts wake-ups, and Coalesced those that came while another was not answered yet.
	Wakes     uint64 `json:"wakes"`
	Coalesced uint64 `json:"wakes_coalesced"`
	// Failing is since when claims have failed and none was answered; zero while the latest was answered, or there was
	// none. Asked is when the claim was put that is not answered yet; zero if there is none.
	Failing time.Time `json:"failing_since,omitzero"`
	Asked   time.Time `json:"asked_since,omitzero"`
	// Answered is how long the server took to answer claims; failed ones are not in it.
	Answered Histogram `json:"claim_seconds"`
}

// Claims counts claims by what they brought.
type Claims struct {
	Brought uint64 `json:"run"`   // a run, or several
	Empty   uint64 `json:"empty"` // nothing
	Failed  uint64 `json:"error"` // an error, that of a stop left out
	// EmptyWoken counts those of Empty that answered a wake-up: somebody else was first.
	EmptyWoken uint64 `json:"empty_woken"`
	// Exhausted counts those of Brought with nothing but runs that come back again and again.
	Exhausted uint64 `json:"exhausted"`
}

// Total is how many claims were put and are over.
func (c Claims) Total() uint64 { return c.Brought + c.Empty + c.Failed }

// State is what a loop does, or waits for.
type State string

// The states of a loop. Where several apply, it is the first of them.
const (
	Idle     State = "idle"     // it does not run
	Paused   State = "paused"   // it is to claim nothing
	Full     State = "full"     // no slot is open
	Unready  State = "unready"  // the [Claimer] is not ready, as there is no connection
	Claiming State = "claiming" // it asks the gate, or has put a claim
	Resting  State = "resting"  // it got nothing but runs that come back again and again
	Waiting  State = "waiting"  // the claim before brought none, so it pauses
)

// Stats returns what the loop has done so far. It may be called at any time; the
// numbers of a claim that is being made may be there in part.
func (l *Loop) Stats() Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.stats
}

// State returns what the loop does just now. It may be called at any time.
func (l *Loop) State() State {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.stats.State
}

// count changes the numbers.
func (l *Loop) count(change func(s *Stats)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change(&l.stats)
}
