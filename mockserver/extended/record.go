package extended

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/phxworker/phxworker/mockserver/lightning"
)

// End is how an owner's time with a run ended.
type End string

// The ends.
const (
	// Completed: the run has ended.
	Completed End = "completed"
	// OwnerLost: the janitor called the run lost.
	OwnerLost End = "lost"
	// LeaseExpired: the lease ended before it was renewed.
	LeaseExpired End = "lease_expired"
	// Silent: no status of the worker came for too long.
	Silent End = "silent"
	// Released: the worker returned the run.
	Released End = "released"
	// NotJoined: the worker did not join the run's topic in time, or had gone
	// before the answer to its claim could be sent.
	NotJoined End = "not_joined"
)

// Owner is who had a run: a worker, from a claim on.
type Owner struct {
	Worker     string    `json:"worker"`                // its worker_id
	WorkerName string    `json:"worker_name,omitempty"` // of the claim
	Attempt    int       `json:"attempt"`
	ClaimedAt  time.Time `json:"claimed_at"`
	JoinedAt   time.Time `json:"joined_at,omitzero"`
	// LeaseUntil is when its lease ends or ended; zero if it had none.
	LeaseUntil time.Time `json:"lease_until,omitzero"`
	Renewals   int       `json:"renewals,omitempty"`
	EndedAt    time.Time `json:"ended_at,omitzero"` // zero: it has the run
	End        End       `json:"end,omitempty"`
	// ReleaseReason and ReleaseDelayMS are what it said when it returned the run.
	ReleaseReason  string `json:"release_reason,omitempty"`
	ReleaseDelayMS int64  `json:"release_delay_ms,omitempty"`
}

// RunRecord is all that is known of a run, and of who had it.
type RunRecord struct {
	lightning.RunRecord

	// What follows is of the extended mode only.

	Key string `json:"key,omitempty"`
	// Attempt is which attempt this is: 1 at first, and one more after each that failed. A
	// run that was returned untried, such as a postponed one, keeps its number.
	Attempt int `json:"attempt,omitempty"`
	// NotBefore is when a run that was released becomes available.
	NotBefore time.Time `json:"not_before,omitzero"`
	// Owners are all who had the run, in turn. Only the last can have it now.
	Owners []Owner `json:"owners,omitempty"`
}

// Inspect returns what is known of a run.
func (x *Service) Inspect(id string) (RunRecord, bool) {
	x.Lock()
	defer x.Unlock()
	r := x.EntryLocked(id)
	if r == nil {
		return RunRecord{}, false
	}
	t := tenureOf(r)
	return RunRecord{RunRecord: x.RecordLocked(r), Key: r.Key(), Attempt: t.attempt, NotBefore: t.notBefore, Owners: t.ownersLocked()}, true
}

func (t *tenure) ownersLocked() []Owner {
	var all []Owner
	for _, o := range t.owners {
		all = append(all, Owner{
			Worker: o.member.id, WorkerName: o.name, Attempt: o.attempt,
			ClaimedAt: o.claimed, JoinedAt: o.joined, LeaseUntil: o.until, Renewals: o.renewals,
			EndedAt: o.ended, End: o.end, ReleaseReason: o.reason, ReleaseDelayMS: ms(o.delay),
		})
	}
	return all
}

// Stats counts what happened of the extensions since the start, except
// where it says now.
type Stats struct {
	Waiting       int   `json:"waiting_claims"` // now
	Delayed       int   `json:"delayed"`        // now: released runs that are not available yet
	Renewals      int64 `json:"renewals"`
	LeasesExpired int64 `json:"leases_expired"`
	Released      int64 `json:"released"`
	AcksMissed    int64 `json:"acks_missed"` // runs claimed and not joined in time
	Statuses      int64 `json:"statuses"`
	SilentWorkers int64 `json:"silent_workers"`
	TakenBack     int64 `json:"taken_back"` // runs taken from an owner, for whatever reason
	Stale         int64 `json:"stale"`      // joins, events and releases of workers that had lost the run
	Cancels       int64 `json:"cancels"`    // asked of workers
	Notifications int64 `json:"notifications"`
	Drains        int64 `json:"drains"` // workers told to drain
}

// Counts returns what happened of the extensions.
func (x *Service) Counts() Stats {
	x.Lock()
	defer x.Unlock()
	out := x.stats
	out.Waiting = len(x.waits)
	return out
}

// WorkerRecord is a worker that has joined worker:queue, or that still owns runs.
type WorkerRecord struct {
	lightning.WorkerRecord

	// What follows is of the extended mode only.

	Waiting    int      `json:"waiting_claims"`
	Extensions []string `json:"extensions,omitempty"` // agreed on with its joins
	Drained    bool     `json:"drained,omitempty"`    // it was told to drain
	Paused     bool     `json:"paused,omitempty"`     // it is given nothing until it is resumed
	Silent     bool     `json:"silent,omitempty"`     // its status has not come in time
	// Status is what it told last, as it came, and when.
	Status   json.RawMessage `json:"status,omitempty"`
	StatusAt time.Time       `json:"status_at,omitzero"`
}

// Workers returns the workers, by their ids.
func (x *Service) Workers() []WorkerRecord {
	x.Lock()
	defer x.Unlock()
	all := make([]WorkerRecord, 0, len(x.workers))
	for _, m := range x.workers {
		all = append(all, x.recordLocked(m))
	}
	slices.SortFunc(all, func(a, b WorkerRecord) int { return cmp.Compare(a.ID, b.ID) })
	return all
}

func (x *Service) recordLocked(m *member) WorkerRecord {
	rec := WorkerRecord{
		WorkerRecord: x.WorkerLocked(m.id), Paused: m.paused, Silent: m.silent, Status: m.status, StatusAt: m.statusAt,
	}
	with := make(agreed)
	for c := range m.joins {
		maps.Copy(with, c.with)
		rec.Drained = rec.Drained || c.drained
	}
	rec.Extensions = slices.Sorted(maps.Keys(with))
	for _, w := range x.waits {
		if w.channel.member == m {
			rec.Waiting++
		}
	}
	return rec
}
