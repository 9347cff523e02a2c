package lightning

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/phxworker/phxworker/mockserver/phoenix"
)

// member is a worker, whatever connections it has: all with one worker_id.
// Service.mu guards it.
type member struct {
	id    string                    // constant: its worker_id
	name  string                    // its worker_name, as last told
	joins map[*queueMember]struct{} // of worker:queue
	runs  map[*run]struct{}         // that it owns and that have not ended

	status   json.RawMessage // as last told
	statusAt time.Time
	draining bool      // as its status says
	silent   bool      // since its status did not come
	watch    *deadline // when it will be; nil before its first status
}

// queueMember is worker:queue as joined by a worker, in extended mode.
type queueMember struct {
	queueChannel

	x       *extended
	member  *member // constant
	with    agreed  // constant
	drained bool    // guarded by Service.mu: it was told to drain
}

var _ phoenix.Channel = (*queueMember)(nil)

func (x *extended) joinQueue(plain *queueChannel, payload []byte) (phoenix.Channel, phoenix.Reply) {
	with, reply := x.agree(payload, queueExtensions)
	id := plain.topic.Client()
	s := x.service
	s.mu.Lock()
	defer s.mu.Unlock()
	m := x.workers[id]
	if m == nil {
		m = &member{id: id, joins: make(map[*queueMember]struct{}), runs: make(map[*run]struct{})}
		x.workers[id] = m
	}
	c := &queueMember{queueChannel: *plain, x: x, member: m, with: with}
	m.joins[c] = struct{}{}
	m.silent, m.draining = false, false
	switch {
	case !with[extStatus]:
		x.agenda.drop(m.watch) // it will not tell any more
		m.watch = nil
	case m.watch != nil:
		x.watchLocked(m)
	}
	x.seatLocked(m)
	return c, reply
}

// Handle implements [phoenix.Channel].
func (c *queueMember) Handle(p phoenix.Push) phoenix.Reply {
	switch {
	case p.Event == "claim":
		return c.x.claim(c, p)
	case p.Event == "run:release" && c.with[extRelease]:
		return c.x.release(p)
	case p.Event == "worker:status" && c.with[extStatus]:
		return c.x.report(c.member, p)
	}
	return c.queueChannel.Handle(p)
}

// Left implements [phoenix.Channel]. What a worker owns stays its own: it may
// be back.
func (c *queueMember) Left() {
	c.queueChannel.Left()
	s := c.x.service
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(c.member.joins, c)
	c.x.dropWaitsLocked(func(w *wait) bool { return w.channel == c })
	c.x.seatLocked(c.member)
	c.x.forgetLocked(c.member)
}

// forgetLocked forgets a worker that has gone and owns nothing.
func (x *extended) forgetLocked(m *member) {
	if len(m.joins) == 0 && len(m.runs) == 0 {
		x.agenda.drop(m.watch)
		m.watch = nil
		delete(x.workers, m.id)
	}
}

// report takes a worker's status.
func (x *extended) report(m *member, p phoenix.Push) phoenix.Reply {
	var status struct {
		Draining bool `json:"draining"`
	}
	if p.Binary || json.Unmarshal(p.Payload, &status) != nil || p.Payload[0] != '{' {
		return phoenix.Crash("a status must be an object")
	}
	s := x.service
	s.mu.Lock()
	defer s.mu.Unlock()
	m.status, m.statusAt, m.draining, m.silent = bytes.Clone(p.Payload), time.Now(), status.Draining, false
	x.stats.Statuses++
	if status.Draining { // it claims no more, and waits for the answers of what it has asked
		x.endWaitsLocked(func(w *wait) bool { return w.channel.member == m }, m.statusAt)
	}
	x.watchLocked(m)
	x.seatLocked(m)
	return phoenix.OK([]byte(`{}`))
}

// watchLocked waits for the worker's next status.
func (x *extended) watchLocked(m *member) {
	x.agenda.drop(m.watch)
	m.watch = x.inLocked(x.cfg.StatusTimeout, func(now time.Time) {
		m.watch, m.silent = nil, true
		x.stats.SilentWorkers++
		x.tellLocked("worker is silent", "worker", m.id, "worker_name", m.name, "runs", len(m.runs))
		x.endWaitsLocked(func(w *wait) bool { return w.channel.member == m }, now)
		for _, r := range m.runsLocked() {
			r.tenure.attempt++
			x.takeBackLocked(r, Silent, now)
		}
		x.seatLocked(m)
	})
}

// runsLocked returns what the worker owns, the oldest first.
func (m *member) runsLocked() []*run {
	return slices.SortedFunc(maps.Keys(m.runs), func(a, b *run) int { return cmp.Compare(a.seq, b.seq) })
}

// seatLocked gives the worker its share of the keys while it takes runs.
func (x *extended) seatLocked(m *member) {
	takes := false
	for c := range m.joins {
		takes = takes || !c.drained
	}
	if takes && !m.silent && !m.draining {
		x.seats.sit(m.id)
	} else {
		x.seats.rise(m.id)
	}
	x.stir() // runs may be for others now
}

// isForLocked reports whether a worker may have an available run: any may, unless
// it has a key that belongs to another worker and has not waited for that long.
func (x *extended) isForLocked(r *run, m *member, now time.Time) bool {
	if r.key == "" || now.Sub(r.tenure.since) >= x.cfg.AffinityWait {
		return true
	}
	home := x.seats.of(r.key)
	return home == "" || home == m.id
}

// availableLocked takes note of a run that can be claimed from now on.
func (x *extended) availableLocked(r *run) {
	r.tenure.since = time.Now()
	r.tenure.notBefore = time.Time{}
	if r.key != "" {
		r.tenure.patience = x.inLocked(x.cfg.AffinityWait, func(time.Time) { x.service.waker.soon() })
	}
	x.stir()
}
