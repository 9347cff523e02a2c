package lightning

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"
)

// tenure is who has a run and who had it. Its zero value is that of a run in
// Lightning's own mode, where a run has one worker and keeps it. Service.mu guards it.
type tenure struct {
	attempt int
	owner   *owner   // who has the run, or had it when it ended; nil while it waits
	owners  []*owner // all of them, in turn

	since     time.Time // when it became available
	patience  *deadline // until a run with a key is for any worker
	notBefore time.Time // when a release has it available again
	delay     *deadline // likewise; nil when that is over

	cancel *string         // the message with which it is to be cancelled
	wiped  json.RawMessage // the input that was erased when it was read: another owner needs it, too
}

// owner has a run, from a claim until the run ends or is taken from it.
type owner struct {
	number  int     // constant: 1 for the first
	member  *member // constant
	name    string  // constant: the worker_name of the claim
	attempt int     // constant
	with    agreed  // constant: on worker:queue, when it claimed

	token    string
	claimed  time.Time
	joined   time.Time     // first
	until    time.Time     // the end of the lease, zero if there is none
	term     time.Duration // of the lease, when it began
	cancels  bool          // the last join of the topic agreed on cancel
	renewals int
	lease    *deadline
	ack      *deadline
	topics   map[*runChannel]struct{} // joined now
	ended    time.Time
	end      End
	reason   string        // of a release
	delay    time.Duration // likewise
}

// ownLocked makes the worker the owner of runs that it gets.
func (x *extended) ownLocked(c *queueMember, taken []given, now time.Time) {
	for i := range taken {
		r := taken[i].run
		t := &r.tenure
		x.agenda.drop(t.patience)
		t.owner = &owner{
			number: len(t.owners) + 1, member: c.member, name: r.workerName, attempt: t.attempt, with: c.with,
			claimed: now, topics: make(map[*runChannel]struct{}),
		}
		t.owners = append(t.owners, t.owner)
		c.member.runs[r] = struct{}{}
		if r.workerName != "" {
			c.member.name = r.workerName
		}
		taken[i].owner, taken[i].again = t.owner, len(t.owners) > 1
	}
}

// beginLocked gives an owner its token, and starts its time.
func (x *extended) beginLocked(g given) {
	r, o := g.run, g.owner
	r.token, o.token = g.token, g.token
	if o.with[extLease] {
		x.leaseLocked(r, o)
	}
	if o.with[extClaimAck] {
		o.ack = x.inLocked(x.cfg.ClaimAck, func(now time.Time) {
			x.stats.AcksMissed++
			x.tellLocked("claimed run was not joined", "run_id", r.id, "worker_name", o.name)
			x.takeBackLocked(r, NotJoined, now)
		})
	}
}

// leaseLocked begins a lease, or begins it anew.
func (x *extended) leaseLocked(r *run, o *owner) {
	x.agenda.drop(o.lease)
	o.term, o.until = x.cfg.Lease, time.Now().Add(x.cfg.Lease)
	o.lease = x.inLocked(x.cfg.Lease, func(now time.Time) {
		x.stats.LeasesExpired++
		x.tellLocked("lease expired", "run_id", r.id, "worker_name", o.name)
		r.tenure.attempt++
		x.takeBackLocked(r, LeaseExpired, now)
	})
}

// leased reports whether the run's lease will decide over it.
func (t *tenure) leased() bool { return t.owner != nil && !t.owner.until.IsZero() }

// lost reports whether o is not the run's owner any more. Nobody, as in Lightning's
// own mode, never loses it.
func (o *owner) lost(r *run) bool { return o != nil && o != r.tenure.owner }

// partLocked ends an owner's time with a run.
func (x *extended) partLocked(r *run, o *owner, end End, now time.Time) {
	x.agenda.drop(o.lease)
	x.agenda.drop(o.ack)
	o.ended, o.end = now, end
	delete(o.member.runs, r)
	x.forgetLocked(o.member)
}

// takeBackLocked takes a run from its owner, who is told by the end of its topics,
// and makes it available again; unless it was to be cancelled anyway.
func (x *extended) takeBackLocked(r *run, end End, now time.Time) {
	s, o := x.service, r.tenure.owner
	x.partLocked(r, o, end, now)
	for _, c := range slices.Collect(maps.Keys(o.topics)) {
		c.topic.Close()
	}
	o.topics = nil
	x.stats.TakenBack++
	if end != Released {
		// It may be frozen, so the run must not go to a claim of its own that waits.
		x.endWaitsLocked(func(w *wait) bool { return w.channel.member == o.member }, now)
	}
	r.tenure.owner, r.token, r.expires = nil, "", time.Time{}
	if message := r.tenure.cancel; message != nil {
		s.finishLocked(r, Cancelled, cancelled(*message))
		return
	}
	delete(s.active, r.id)
	r.state, r.workerName, r.claimed, r.started = Available, "", time.Time{}, time.Time{}
	if r.dataclip == nil {
		r.dataclip = r.tenure.wiped
	}
	if o.delay > 0 {
		r.tenure.notBefore = now.Add(o.delay)
		x.stats.Delayed++
		r.tenure.delay = x.inLocked(o.delay, func(time.Time) {
			x.endDelayLocked(r)
			x.offerLocked(r)
		})
		return
	}
	x.offerLocked(r)
}

func (x *extended) endDelayLocked(r *run) {
	x.agenda.drop(r.tenure.delay)
	r.tenure.delay = nil
	x.stats.Delayed--
}

// offerLocked puts a run back into its queue, where it was before.
func (x *extended) offerLocked(r *run) {
	x.service.available.push(r)
	x.availableLocked(r)
	x.service.waker.soon()
}

// enqueuedLocked takes note of a run that has just been queued for the first time.
func (x *extended) enqueuedLocked(r *run) {
	r.tenure.attempt = 1
	x.availableLocked(r)
}

// finishedLocked takes note of a run that has ended. Its last owner keeps it, and
// is answered as Lightning answers.
func (x *extended) finishedLocked(r *run) {
	t := &r.tenure
	x.agenda.drop(t.patience)
	if t.delay != nil {
		x.endDelayLocked(r)
	}
	t.wiped = nil
	if t.owner == nil || !t.owner.ended.IsZero() {
		return
	}
	end := Completed
	if r.state == Lost {
		end = OwnerLost
	}
	x.partLocked(r, t.owner, end, r.finished)
}

// delayed is how many released runs are not available yet.
func (x *extended) delayed() int {
	if x == nil {
		return 0
	}
	return x.stats.Delayed
}

// writeTerms writes what the reply to a claim says of a run beyond Lightning's.
func (o *owner) writeTerms(b *bytes.Buffer) {
	if o == nil {
		return
	}
	if o.with[extLease] {
		fmt.Fprintf(b, `,"lease_ms":%d`, ms(o.term))
	}
	if o.with[extAttempt] {
		fmt.Fprintf(b, `,"attempt":%d`, o.attempt)
	}
}
