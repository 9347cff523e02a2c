package claim

import "sync/atomic"

// Stats is what a loop has done since it was made.
type Stats struct {
	State   State
	Claims  uint64 // put to the Claimer and over
	Brought uint64 // claims that brought a run
	Empty   uint64 // claims of which the reply had no runs
	// EmptyWoken counts those of them that answered a wake-up: somebody else was first.
	EmptyWoken uint64
	Failed     uint64 // claims that ended with an error, those of a stop left out
	HeldBack   uint64 // claims that were not made, because the gate said no
	Runs       uint64 // handed to the Starter
	Refused    uint64 // runs not started because of their token
	// Exhausted counts claims that brought nothing but runs which came back again and
	// again.
	Exhausted uint64
	// Prefetched counts runs that were claimed ahead, and Returned those of them that
	// waited too long and were returned.
	Prefetched, Returned uint64
	Held                 uint64 // runs that had to wait for a slot, as more came than were asked for

	Wakes     uint64 // wake-ups
	Coalesced uint64 // wake-ups that came while another was not answered yet
}

// tally is Stats in the making: the loop adds, anyone reads.
type tally struct {
	claims, brought, empty, emptyWoken, failed, heldBack atomic.Uint64
	runs, refused, held                                  atomic.Uint64
	wakes, coalesced                                     atomic.Uint64
	exhausted, prefetched, returned                      atomic.Uint64
}

func (t *tally) read() Stats {
	return Stats{
		Claims:  t.claims.Load(),
		Brought: t.brought.Load(),
		Empty:   t.empty.Load(), EmptyWoken: t.emptyWoken.Load(),
		Failed:    t.failed.Load(),
		HeldBack:  t.heldBack.Load(),
		Runs:      t.runs.Load(),
		Refused:   t.refused.Load(),
		Held:      t.held.Load(),
		Wakes:     t.wakes.Load(),
		Exhausted: t.exhausted.Load(), Prefetched: t.prefetched.Load(), Returned: t.returned.Load(),
		Coalesced: t.coalesced.Load(),
	}
}
