package claim

import "time"

// Stats counts what a loop has done since it was made.
type Stats struct {
	State State `json:"state"`
	// Claims counts the claims that were sent and are over.
	Claims Claims `json:"claims"`
	// HeldBack counts claims that the gate has held back.
	HeldBack uint64 `json:"held_back"`
	// Started counts the runs that were handed to the [Starter].
	Started uint64 `json:"started"`
	// Refused counts runs that were not started because of their token.
	Refused uint64 `json:"refused"`
	// Prefetched counts runs that were claimed ahead. PrefetchReturned counts how many of these
	// were returned because they had waited too long for a slot.
	Prefetched       uint64 `json:"prefetched"`
	PrefetchReturned uint64 `json:"prefetch_returned"`
	// Held counts runs that had to wait for a slot because more came than were asked for.
	Held uint64 `json:"held"`
	// Wakes counts wake-ups. Coalesced counts how many of these came before the loop had claimed
	// for an earlier one.
	Wakes     uint64 `json:"wakes"`
	Coalesced uint64 `json:"wakes_coalesced"`
	// Failing is when the first claim of those that failed in a row was sent; zero if the latest was
	// answered, if there was none, or if the gate has held one back since. Asked is when the claim was
	// sent that has no answer yet; zero if there is none.
	Failing time.Time `json:"failing_since,omitzero"`
	Asked   time.Time `json:"asked_since,omitzero"`
	// Answered is how long the server took to answer claims. Failed claims are not in it.
	Answered Histogram `json:"claim_seconds"`
}

// Claims counts claims by what they brought.
type Claims struct {
	Brought uint64 `json:"run"`   // one run or several
	Empty   uint64 `json:"empty"` // no run
	Failed  uint64 `json:"error"` // an error; a claim that a stop has ended is not counted
	// EmptyWoken is the part of Empty that answered a wake-up: another worker was first.
	EmptyWoken uint64 `json:"empty_woken"`
	// Exhausted is the part of Brought that brought only runs which come back again and again.
	Exhausted uint64 `json:"exhausted"`
}

// Total returns how many claims were sent and are over.
func (c Claims) Total() uint64 { return c.Brought + c.Empty + c.Failed }

// State is what a loop does, or what it waits for.
type State string

// The states of a loop. When several apply, the loop is in the first of them.
const (
	Idle     State = "idle"     // Run was not called, or has returned
	Paused   State = "paused"   // somebody has paused the loop
	Full     State = "full"     // no slot is open
	Unready  State = "unready"  // the Claimer cannot send a claim, as without a connection
	Claiming State = "claiming" // it asks the gate, or waits for the reply to a claim
	Resting  State = "resting"  // the last claim brought only runs that come back again and again
	Waiting  State = "waiting"  // the last claim brought no run, and the back-off is not over
)

// Stats returns the numbers so far. It may be called at any time. A claim that is being made may
// already be in some of the numbers and not yet in others.
func (l *Loop) Stats() Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.stats
}

// count changes the numbers.
func (l *Loop) count(change func(s *Stats)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change(&l.stats)
}
