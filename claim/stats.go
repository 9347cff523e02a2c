package claim

import (
	"fmt"
	"slices"
	"sync/atomic"
)

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

// tally is Stats in the making: the loop adds, anyone reads.
type tally struct {
	brought, empty, emptyWoken, failed, exhausted    atomic.Uint64
	started, refused, held, heldBack                 atomic.Uint64
	wakes, coalesced, prefetched, prefetchedReturned atomic.Uint64
	seconds                                          Durations
}

func (t *tally) read() Stats {
	return Stats{
		Claims: Claims{
			Brought: t.brought.Load(), Empty: t.empty.Load(), Failed: t.failed.Load(),
			EmptyWoken: t.emptyWoken.Load(), Exhausted: t.exhausted.Load(),
		},
		HeldBack: t.heldBack.Load(), Started: t.started.Load(), Refused: t.refused.Load(), Held: t.held.Load(),
		Prefetched: t.prefetched.Load(), PrefetchReturned: t.prefetchedReturned.Load(),
		Wakes: t.wakes.Load(), Coalesced: t.coalesced.Load(), Answered: t.seconds.Histogram(),
	}
}

// State is what a loop does, or waits for. It is a text in JSON.
type State uint8

// The states of a loop. Where several apply, it is the first of them.
const (
	Idle     State = iota // it does not run
	Paused                // it is to claim nothing
	Full                  // no slot is open
	Unready               // the [Claimer] is not ready, as there is no connection
	Claiming              // it asks the gate, or has put a claim
	Resting               // it got nothing but runs that come back again and again
	Waiting               // the claim before brought none, so it pauses
)

var states = []string{"idle", "paused", "full", "unready", "claiming", "resting", "waiting"}

// String returns the state's name in lower case.
func (s State) String() string {
	if int(s) < len(states) {
		return states[s]
	}
	return fmt.Sprintf("State(%d)", uint8(s))
}

// MarshalText returns [State.String].
func (s State) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText takes what MarshalText makes of a state.
func (s *State) UnmarshalText(text []byte) error {
	i := slices.Index(states, string(text))
	if i < 0 {
		return fmt.Errorf("claim: there is no state %q", text)
	}
	*s = State(i) //nolint:gosec // there are seven
	return nil
}
