package extended

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/phxworker/phxworker/mockserver/lightning"
	"github.com/phxworker/phxworker/mockserver/phoenix"
)

// member is a worker, whatever connections it has: all with one worker_id.
// Service.Lock guards it.
type member struct {
	id    string                        // constant: its worker_id
	joins map[*queueChannel]struct{}    // of worker:queue
	runs  map[*lightning.Entry]struct{} // that it owns and that have not ended

	status   json.RawMessage // as last told
	statusAt time.Time
	draining bool      // as its status says
	silent   bool      // since its status did not come
	paused   bool      // it is to be given nothing
	watch    *deadline // when it will be; nil before its first status
}

// queueChannel is worker:queue as joined by a worker, in extended mode.
type queueChannel struct {
	phoenix.Channel // Lightning's own

	x       *Service
	topic   *phoenix.Topic
	member  *member // constant
	with    agreed  // constant
	drained bool    // guarded by Service.Lock: it was told to drain
}

var _ phoenix.Channel = (*queueChannel)(nil)

func (x *Service) joinQueue(t *phoenix.Topic, payload []byte, plain phoenix.Channel) (phoenix.Channel, phoenix.Reply) {
	with, reply := x.agree(payload, queueExtensions)
	id := t.Client()
	x.Lock()
	defer x.Unlock()
	m := x.workers[id]
	if m == nil {
		m = &member{id: id, joins: make(map[*queueChannel]struct{}), runs: make(map[*lightning.Entry]struct{})}
		x.workers[id] = m
	}
	c := &queueChannel{Channel: plain, x: x, topic: t, member: m, with: with}
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
func (c *queueChannel) Handle(p phoenix.Push) phoenix.Reply {
	switch {
	case p.Event == "claim":
		return c.x.claim(c, p)
	case p.Event == "run:release" && c.with[extRelease]:
		return c.x.release(p)
	case p.Event == "worker:status" && c.with[extStatus]:
		return c.x.report(c.member, p)
	}
	return c.Channel.Handle(p)
}

// Left implements [phoenix.Channel]. What a worker owns stays its own: it may
// be back.
func (c *queueChannel) Left() {
	c.Channel.Left()
	c.x.Lock()
	defer c.x.Unlock()
	delete(c.member.joins, c)
	c.x.dropWaitsLocked(func(w *wait) bool { return w.channel == c })
	c.x.seatLocked(c.member)
	c.x.forgetLocked(c.member)
}

// forgetLocked forgets a worker that has gone and owns nothing.
func (x *Service) forgetLocked(m *member) {
	if len(m.joins) == 0 && len(m.runs) == 0 {
		x.agenda.drop(m.watch)
		m.watch = nil
		delete(x.workers, m.id)
	}
}

// report takes a worker's status.
func (x *Service) report(m *member, p phoenix.Push) phoenix.Reply {
	var status struct {
		Draining bool `json:"draining"`
	}
	if p.Binary || json.Unmarshal(p.Payload, &status) != nil || p.Payload[0] != '{' {
		return phoenix.Crash("a status must be an object")
	}
	x.Lock()
	defer x.Unlock()
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
func (x *Service) watchLocked(m *member) {
	x.agenda.drop(m.watch)
	m.watch = x.inLocked(x.cfg.StatusTimeout, func(now time.Time) {
		m.watch, m.silent = nil, true
		x.stats.SilentWorkers++
		x.tellLocked("worker is silent", "worker", m.id, "worker_name", x.WorkerLocked(m.id).Name, "runs", len(m.runs))
		x.endWaitsLocked(func(w *wait) bool { return w.channel.member == m }, now)
		for _, r := range m.runsLocked() {
			tenureOf(r).attempt++
			x.takeBackLocked(r, Silent, now)
		}
		x.seatLocked(m)
	})
}

// runsLocked returns what the worker owns, the oldest first.
func (m *member) runsLocked() []*lightning.Entry {
	return slices.SortedFunc(maps.Keys(m.runs), (*lightning.Entry).Compare)
}

// seatLocked gives the worker its share of the keys while it takes runs.
func (x *Service) seatLocked(m *member) {
	takes := false
	for c := range m.joins {
		takes = takes || !c.drained
	}
	if takes && !m.silent && !m.draining && !m.paused {
		x.seats.sit(m.id)
	} else {
		x.seats.rise(m.id)
	}
	x.stir() // runs may be for others now
}

// isForLocked reports whether a worker may have an available run: any may, unless
// it has a key that belongs to another worker and has not waited for that long.
func (x *Service) isForLocked(r *lightning.Entry, m *member, now time.Time) bool {
	if m.paused {
		return false
	}
	if r.Key() == "" || now.Sub(tenureOf(r).since) >= x.cfg.AffinityWait {
		return true
	}
	home := x.seats.of(r.Key())
	return home == "" || home == m.id
}
