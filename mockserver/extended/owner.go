package extended

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/phxworker/phxworker/mockserver/lightning"
)

// watcher hears from Lightning what becomes of the runs.
type watcher struct{ x *Service }

var _ lightning.Beyond = watcher{}

// Enqueued implements [lightning.Beyond].
func (w watcher) Enqueued(r *lightning.Entry) {
	r.Beyond = &tenure{attempt: 1}
	w.x.availableLocked(r)
}

// Finished implements [lightning.Beyond]. The run's last owner keeps it, and is answered as
// Lightning answers.
func (w watcher) Finished(r *lightning.Entry) {
	x, t := w.x, tenureOf(r)
	x.agenda.drop(t.patience)
	if t.delay != nil {
		x.endDelayLocked(t)
	}
	if t.owner == nil || !t.owner.ended.IsZero() {
		return
	}
	end := Completed
	if r.StateLocked() == lightning.Lost {
		end = OwnerLost
	}
	x.partLocked(r, t.owner, end, time.Now())
}

// Keeps implements [lightning.Beyond]: the end of a lease decides over a run that has one.
func (w watcher) Keeps(r *lightning.Entry) bool {
	o := tenureOf(r).owner
	return o != nil && !o.until.IsZero()
}

// tenure is who has a run and who had it. Service.Lock guards it.
type tenure struct {
	attempt int
	owner   *owner   // who has the run, or had it when it ended; nil while it waits
	owners  []*owner // all of them, in turn

	since     time.Time // when it became available
	patience  *deadline // until a run with a key is for any worker
	notBefore time.Time // when a release has it available again
	delay     *deadline // likewise; nil when that is over

	cancel *string // the message with which it is to be cancelled
}

func tenureOf(r *lightning.Entry) *tenure { return r.Beyond.(*tenure) }

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

// ownLocked makes the worker the owner of a run that it gets.
func (x *Service) ownLocked(c *queueChannel, r *lightning.Entry, workerName string, now time.Time) *owner {
	t := tenureOf(r)
	x.agenda.drop(t.patience)
	t.owner = &owner{
		number: len(t.owners) + 1, member: c.member, name: workerName, attempt: t.attempt, with: c.with,
		claimed: now, topics: make(map[*runChannel]struct{}),
	}
	t.owners = append(t.owners, t.owner)
	c.member.runs[r] = struct{}{}
	return t.owner
}

// beginLocked gives an owner its token, and starts its time.
func (x *Service) beginLocked(g *given) {
	r, o := g.Run, g.owner
	g.GiveLocked()
	o.token = g.Token
	if o.with[extLease] {
		x.leaseLocked(r, o)
	}
	if o.with[extClaimAck] {
		o.ack = x.inLocked(x.cfg.ClaimAck, func(now time.Time) {
			x.stats.AcksMissed++
			x.tellLocked("claimed run was not joined", "run_id", r.ID(), "worker_name", o.name)
			x.takeBackLocked(r, NotJoined, now)
		})
	}
	g.Terms = o.terms()
}

// leaseLocked begins a lease, or begins it anew.
func (x *Service) leaseLocked(r *lightning.Entry, o *owner) {
	x.agenda.drop(o.lease)
	o.term, o.until = x.cfg.Lease, time.Now().Add(x.cfg.Lease)
	o.lease = x.inLocked(x.cfg.Lease, func(now time.Time) {
		x.stats.LeasesExpired++
		x.tellLocked("lease expired", "run_id", r.ID(), "worker_name", o.name)
		tenureOf(r).attempt++
		x.takeBackLocked(r, LeaseExpired, now)
	})
}

// lost reports whether o is not the run's owner any more.
func (o *owner) lost(r *lightning.Entry) bool { return o != tenureOf(r).owner }

// partLocked ends an owner's time with a run.
func (x *Service) partLocked(r *lightning.Entry, o *owner, end End, now time.Time) {
	x.agenda.drop(o.lease)
	x.agenda.drop(o.ack)
	o.ended, o.end = now, end
	delete(o.member.runs, r)
	x.forgetLocked(o.member)
}

// takeBackLocked takes a run from its owner and makes it available again. The owner is told by
// the end of its topics. A run that was to be cancelled ends instead.
func (x *Service) takeBackLocked(r *lightning.Entry, end End, now time.Time) {
	t := tenureOf(r)
	o := t.owner
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
	t.owner = nil
	if t.cancel != nil {
		x.CancelLocked(r, *t.cancel)
		return
	}
	x.TakeBackLocked(r)
	if o.delay > 0 {
		t.notBefore = now.Add(o.delay)
		x.stats.Delayed++
		t.delay = x.inLocked(o.delay, func(time.Time) {
			x.endDelayLocked(t)
			x.offerLocked(r)
		})
		return
	}
	x.offerLocked(r)
}

func (x *Service) endDelayLocked(t *tenure) {
	x.agenda.drop(t.delay)
	t.delay = nil
	x.stats.Delayed--
}

// offerLocked puts a run back into its queue.
func (x *Service) offerLocked(r *lightning.Entry) {
	x.OfferLocked(r)
	x.availableLocked(r)
}

// availableLocked takes note of a run that can be claimed from now on.
func (x *Service) availableLocked(r *lightning.Entry) {
	t := tenureOf(r)
	t.since, t.notBefore = time.Now(), time.Time{}
	if r.Key() != "" {
		t.patience = x.inLocked(x.cfg.AffinityWait, func(time.Time) { x.WakeSoon() })
	}
	x.stir()
}

// terms is what the reply to a claim says of a run beyond Lightning's.
func (o *owner) terms() (b []byte) {
	if o.with[extLease] {
		b = fmt.Appendf(b, `,"lease_ms":%d`, ms(o.term))
	}
	if o.with[extAttempt] {
		b = fmt.Appendf(b, `,"attempt":%d`, o.attempt)
	}
	return b
}
