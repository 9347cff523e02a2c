package lightning

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/phxworker/phxworker/mockserver/phoenix"
)

// WorkerRecord is a worker that has joined worker:queue, on however many sockets.
type WorkerRecord struct {
	ID      string    `json:"id"`                // its worker_id
	Name    string    `json:"name,omitempty"`    // its worker_name, as last told by a claim
	Version string    `json:"version,omitempty"` // its worker_version, as it told when it connected
	Joins   int       `json:"joins"`             // of worker:queue
	Since   time.Time `json:"since,omitzero"`    // of the first of them
	// Groups are its slot groups: those that its join told of, and those that claimed.
	Groups []GroupRecord `json:"groups"`
	Runs   []string      `json:"runs"` // ids of those that it has, the oldest first
}

// GroupRecord is a slot group of a worker, as far as the server knows it.
type GroupRecord struct {
	Name    string `json:"name"`           // its queues, such as manual>*
	Slots   int    `json:"slots,omitzero"` // zero if the join did not tell
	Running int    `json:"running"`        // runs that were claimed by it and have not ended
	Claims  int    `json:"claims"`         // in the last minute
}

// worker is a worker while it is joined. Service.Lock guards it.
type worker struct {
	name, version string
	joins         int
	since         time.Time
	slots         map[string]int    // by group
	claims        map[string]*pulse // likewise
}

// pulse counts what happened in the last minute.
type pulse struct {
	seconds [60]int
	last    int64 // Unix time of what was counted last
}

// forward forgets what is older than a minute.
func (p *pulse) forward(now time.Time) {
	for ; p.last < now.Unix(); p.last++ {
		if now.Unix()-p.last > 60 {
			p.last = now.Unix() - 61
		}
		p.seconds[(p.last+1)%60] = 0
	}
}

func (p *pulse) count(now time.Time) {
	p.forward(now)
	p.seconds[p.last%60]++
}

func (p *pulse) sum(now time.Time) (n int) {
	p.forward(now)
	for _, count := range p.seconds {
		n += count
	}
	return n
}

// joinedLocked takes note of a worker's join, and of what it told with it.
func (s *Service) joinedLocked(t *phoenix.Topic, payload []byte) {
	w := s.workers[t.Client()]
	if w == nil {
		w = &worker{since: time.Now(), claims: make(map[string]*pulse)}
		s.workers[t.Client()] = w
	}
	w.joins++
	w.version = t.Param("worker_version")
	var told struct{ Queues map[string]int }
	_ = json.Unmarshal(payload, &told) // whatever it is, the worker is let in
	w.slots = told.Queues
	s.feed.add(Change{Worker: t.Client()})
}

// leftLocked takes note that a worker has left.
func (s *Service) leftLocked(id string) {
	if w := s.workers[id]; w != nil {
		if w.joins--; w.joins == 0 {
			delete(s.workers, id)
		}
	}
	s.feed.add(Change{Worker: id})
}

// maxGroups bounds the groups that are counted of a worker.
const maxGroups = 100

// claimedLocked counts a claim.
func (s *Service) claimedLocked(request Claim) {
	w := s.workers[request.Worker]
	if w == nil {
		return
	}
	w.name = cmp.Or(request.WorkerName, w.name)
	p := w.claims[request.group()]
	if p == nil && len(w.claims) < maxGroups {
		p = new(pulse)
		w.claims[request.group()] = p
	}
	if p != nil {
		p.count(time.Now())
	}
}

// Workers returns the workers that have joined worker:queue, by their ids.
func (s *Service) Workers() []WorkerRecord {
	s.Lock()
	defer s.Unlock()
	all := make([]WorkerRecord, 0, len(s.workers))
	for _, id := range slices.Sorted(maps.Keys(s.workers)) {
		all = append(all, s.WorkerLocked(id))
	}
	return all
}

// WorkerLocked returns what is known of a worker; of one that has not joined, which runs it has.
func (s *Service) WorkerLocked(id string) WorkerRecord {
	record := WorkerRecord{ID: id, Groups: []GroupRecord{}, Runs: []string{}}
	running := make(map[string]int)
	var has []*Entry
	for _, r := range s.active {
		if r.worker == id {
			has = append(has, r)
			running[r.group]++
		}
	}
	slices.SortFunc(has, (*Entry).Compare)
	for _, r := range has {
		record.Runs = append(record.Runs, r.id)
	}
	w := s.workers[id]
	if w == nil {
		return record
	}
	record.Name, record.Version, record.Joins, record.Since = w.name, w.version, w.joins, w.since
	names := make(map[string]bool)
	for name := range w.slots {
		names[name] = true
	}
	for name := range w.claims {
		names[name] = true
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		group := GroupRecord{Name: name, Slots: w.slots[name], Running: running[name]}
		if p := w.claims[name]; p != nil {
			group.Claims = p.sum(time.Now())
		}
		record.Groups = append(record.Groups, group)
	}
	return record
}
