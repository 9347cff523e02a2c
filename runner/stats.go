package runner

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/phxworker/phxworker/claim"
)

// Stats is what a [Runner] has done since it was made.
type Stats struct {
	// Resent counts events that were sent once more, after a lost join.
	Resent uint64 `json:"events_resent"`
	// LogsShortened counts the lines that a note stands for now: they were over
	// the limit, or not what the server takes.
	LogsShortened uint64 `json:"log_lines_shortened"`
	// Undelivered counts, by their names, the events that the server does not have, or is
	// not known to have: refused in every form, given up with their run, sent at most once
	// and lost, or never taken because the run ended while its outbox was full.
	Undelivered map[string]uint64 `json:"events_undelivered"`
	// Panics counts the engine's, and the worker's own while it takes a run to its end.
	Panics uint64 `json:"engine_panics"`
	// Stuck counts the calls of the engine that did not end when their run did;
	// StuckNow are those of them that still have not.
	Stuck    uint64 `json:"engines_stuck"`
	StuckNow int64  `json:"engines_stuck_now"`
	// Renewed counts leases that were renewed, and LeasesLost those that were lost.
	Renewed    uint64 `json:"leases_renewed"`
	LeasesLost uint64 `json:"leases_lost"`
	// Unknown counts pushes of the server that mean nothing here.
	Unknown uint64 `json:"unknown_pushes"`
	// Settled counts the runs that are over, by what became of them.
	Settled map[Settlement]uint64 `json:"settled"`
	// Acknowledged is how long events took from their push to the server's answer.
	Acknowledged claim.Histogram `json:"acknowledgement_seconds"`
}

// tally is Stats in the making.
type tally struct {
	resent, shortened, panics, stuck atomic.Uint64
	renewed, leasesLost, unknown     atomic.Uint64
	stuckNow                         atomic.Int64
	acknowledged                     claim.Durations

	mu          sync.Mutex
	settled     map[Settlement]uint64
	undelivered map[string]uint64 // by event
}

// settle counts a run that is over.
func (t *tally) settle(as Settlement) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.settled == nil {
		t.settled = make(map[Settlement]uint64)
	}
	t.settled[as]++
}

// undeliver counts events that the server does not have.
func (t *tally) undeliver(event string, n uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.undelivered == nil {
		t.undelivered = make(map[string]uint64)
	}
	t.undelivered[event] += n
}

// Stats returns the numbers so far. It may be called at any time.
func (r *Runner) Stats() Stats {
	t := &r.tally
	settled, undelivered := make(map[Settlement]uint64), make(map[string]uint64)
	t.mu.Lock()
	maps.Copy(settled, t.settled)
	maps.Copy(undelivered, t.undelivered)
	t.mu.Unlock()
	return Stats{
		Resent: t.resent.Load(), LogsShortened: t.shortened.Load(), Undelivered: undelivered,
		Panics: t.panics.Load(), Stuck: t.stuck.Load(), StuckNow: t.stuckNow.Load(),
		Renewed: t.renewed.Load(), LeasesLost: t.leasesLost.Load(), Unknown: t.unknown.Load(),
		Settled: settled, Acknowledged: t.acknowledged.Histogram(),
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
	RunID string    `json:"id"`
	Phase Phase     `json:"phase"`
	Since time.Time `json:"phase_since"` // when the phase began
	// Job is the id of the job that is executed, of several the one that
	// began last; empty between steps.
	Job string `json:"job,omitempty"`
	// Unacknowledged is how many events the server has not answered yet.
	Unacknowledged int `json:"unacknowledged"`
}

// enter takes the run to its next phase.
func (r *Run) enter(phase Phase) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.phase, r.since = phase, time.Now()
}

func (r *Run) progress() Progress {
	r.mu.Lock()
	p := Progress{RunID: r.ID, Phase: r.phase, Since: r.since}
	if n := len(r.open); n > 0 {
		p.Job = r.open[n-1].jobID
	}
	box := r.outbox
	r.mu.Unlock()
	if box != nil {
		p.Unacknowledged = box.waiting()
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

func (r *Runner) enlist(run *Run) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.active[run] = true
}

// hurryEvery is the least time between two calls to hurry that have an effect: a server
// that answers some things and crashes over others must not be asked without end.
const hurryEvery = time.Second

// hurry has the topics of all runs joined that back off: the server has just answered what
// it crashed over before, so they need not wait.
func (r *Runner) hurry() {
	r.mu.Lock()
	if time.Since(r.hurried) < hurryEvery {
		r.mu.Unlock()
		return
	}
	r.hurried = time.Now()
	active := slices.Collect(maps.Keys(r.active))
	r.mu.Unlock()
	for _, run := range active {
		run.mu.Lock()
		box := run.outbox
		run.mu.Unlock()
		if box != nil {
			box.topic.JoinNow()
		}
	}
}

func (r *Runner) dismiss(run *Run) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.active, run)
}
