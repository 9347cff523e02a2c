package claim

import "sync/atomic"

// Stats is what a loop has done since it was made.
type Stats struct {
	Claims  uint64 // put to the Claimer
	Empty   uint64 // claims of which the reply had no runs
	Failed  uint64 // claims that ended with an error, those of a stop left out
	Runs    uint64 // handed to the Starter
	Refused uint64 // runs not started because of their token
	Held    uint64 // runs that had to wait for a slot, as more came than were asked for
}

// tally is Stats in the making: the loop adds, anyone reads.
type tally struct {
	claims, empty, failed, runs, refused, held atomic.Uint64
}

func (t *tally) read() Stats {
	return Stats{
		Claims:  t.claims.Load(),
		Empty:   t.empty.Load(),
		Failed:  t.failed.Load(),
		Runs:    t.runs.Load(),
		Refused: t.refused.Load(),
		Held:    t.held.Load(),
	}
}
