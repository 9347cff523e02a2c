package lightning

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"time"
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
	// Released: the worker gave the run back.
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
	// ReleaseReason and ReleaseDelayMS are what it said when it gave the run back.
	ReleaseReason  string `json:"release_reason,omitempty"`
	ReleaseDelayMS int64  `json:"release_delay_ms,omitempty"`
}

func (t *tenure) recordLocked() []Owner {
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

// ExtendedStats counts what happened of the extensions since the start, except
// where it says now.
type ExtendedStats struct {
	Waiting       int   `json:"waiting_claims"` // now
	Delayed       int   `json:"delayed"`        // now: released runs that are not available yet
	Renewals      int64 `json:"renewals"`
	LeasesExpired int64 `json:"leases_expired"`
	Released      int64 `json:"released"`
	AcksMissed    int64 `json:"acks_missed"` // runs claimed and not joined in time
	Statuses      int64 `json:"statuses"`
	SilentWorkers int64 `json:"silent_workers"`
	TakenBack     int64 `json:"taken_back"` // runs taken from an owner, for whatever reason
	Stale         int64 `json:"stale"`      // joins, events and releases refused to who had lost the run
	Cancels       int64 `json:"cancels"`    // asked of workers
	Notifications int64 `json:"notifications"`
	Drains        int64 `json:"drains"` // workers told to drain
}

func (x *extended) statsLocked(out *ExtendedStats) {
	*out = x.stats
	out.Waiting = len(x.waits)
}

// WorkerRecord is a worker that has joined worker:queue, or that still owns runs.
type WorkerRecord struct {
	ID         string   `json:"id"`             // its worker_id
	Name       string   `json:"name,omitempty"` // its worker_name, as last told by a claim that was answered with runs
	Joins      int      `json:"joins"`          // of worker:queue
	Waiting    int      `json:"waiting_claims"`
	Extensions []string `json:"extensions"`        // agreed on with its joins
	Runs       []string `json:"runs"`              // ids of those that it owns
	Drained    bool     `json:"drained,omitempty"` // it was told to drain
	Silent     bool     `json:"silent,omitempty"`  // its status has not come in time
	// Status is what it told last, as it came, and when.
	Status   json.RawMessage `json:"status,omitempty"`
	StatusAt time.Time       `json:"status_at,omitzero"`
}

// Workers returns the workers, by their ids, in extended mode; else nil.
func (s *Service) Workers() []WorkerRecord {
	if s.ext == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]WorkerRecord, 0, len(s.ext.workers))
	for _, m := range s.ext.workers {
		all = append(all, s.ext.recordLocked(m))
	}
	slices.SortFunc(all, func(a, b WorkerRecord) int { return cmp.Compare(a.ID, b.ID) })
	return all
}

func (x *extended) recordLocked(m *member) WorkerRecord {
	rec := WorkerRecord{
		ID: m.id, Name: m.name, Joins: len(m.joins), Silent: m.silent, Status: m.status, StatusAt: m.statusAt,
		Extensions: []string{}, Runs: []string{},
	}
	with := make(agreed)
	for c := range m.joins {
		maps.Copy(with, c.with)
		rec.Drained = rec.Drained || c.drained
	}
	rec.Extensions = append(rec.Extensions, slices.Sorted(maps.Keys(with))...)
	for _, r := range m.runsLocked() {
		rec.Runs = append(rec.Runs, r.id)
	}
	for _, w := range x.waits {
		if w.channel.member == m {
			rec.Waiting++
		}
	}
	return rec
}
