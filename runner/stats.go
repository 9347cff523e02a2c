package runner

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/phxworker/phxworker/runner/delivery"
)

// Stats is what a [Runner] has done since it was made.
type Stats struct {
	delivery.Stats

	// Panics counts the engine's, and the worker's own while it takes a run to its end.
	Panics uint64
	// Stuck counts the calls of the engine that did not end when their run did;
	// StuckNow are those of them that still have not.
	Stuck    uint64
	StuckNow int64
	// Renewed counts leases that were renewed, and LeasesLost those that were lost.
	Renewed, LeasesLost uint64
	// Unknown counts pushes of the server that mean nothing here.
	Unknown uint64
	// Settled counts the runs that are over, by what became of them.
	Settled map[Settlement]uint64
}

// tally is what the runner counts itself.
type tally struct {
	panics, stuck atomic.Uint64
	stuckNow      atomic.Int64

	mu      sync.Mutex
	settled map[Settlement]uint64
}

// settle counts a run that is over.
func (t *tally) settle(as Settlement) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.settled[as]++
}

// Stats returns the numbers so far. It may be called at any time.
func (r *Runner) Stats() Stats {
	t, agreed := &r.tally, r.terms.Stats()
	t.mu.Lock()
	settled := maps.Clone(t.settled)
	t.mu.Unlock()
	return Stats{
		Stats: r.delivery.Stats(), Panics: t.panics.Load(), Stuck: t.stuck.Load(), StuckNow: t.stuckNow.Load(),
		Renewed: agreed.Renewed, LeasesLost: settled[LeaseLost], Unknown: agreed.Unknown, Settled: settled,
	}
}

// Phase is how far a run has come.
type Phase string

// The phases of a run, in their order.
const (
	Joining   Phase = "joining"   // waits for the server to let it onto its topic
	Loading   Phase = "loading"   // fetches plan, dataclip and credentials
	Preparing Phase = "preparing" // the engine gets what it needs, such as adaptors
	Executing Phase = "executing"
	Reporting Phase = "reporting" // over for the engine; the server is still to be told
)

// Progress is one run under way.
type Progress struct {
	RunID string
	Phase Phase
	Since time.Time // when the phase began
	// Job is the id of the job that is executed, of several the one that
	// began last; empty between steps.
	Job string
	// Unacknowledged is how many events the server has not answered yet.
	Unacknowledged int
}

// enter takes the run to its next phase.
func (r *Run) enter(phase Phase) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.phase, r.since = phase, time.Now()
}

func (r *Run) progress() Progress {
	p := Progress{RunID: r.ID, Unacknowledged: r.outbox.Waiting()}
	r.mu.Lock()
	defer r.mu.Unlock()
	p.Phase, p.Since = r.phase, r.since
	if n := len(r.open); n > 0 {
		p.Job = r.open[n-1].jobID
	}
	return p
}

// Active returns the runs under way, by id.
func (r *Runner) Active() []Progress {
	r.mu.Lock()
	active := slices.Collect(maps.Keys(r.active))
	r.mu.Unlock()
	list := make([]Progress, len(active))
	for i, run := range active {
		list[i] = run.progress()
	}
	slices.SortFunc(list, func(a, b Progress) int { return cmp.Compare(a.RunID, b.RunID) })
	return list
}
