package lightning

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/phxworker/phxworker/channel/frame"
	"github.com/phxworker/phxworker/mockserver/phoenix"
)

const runRenew = "run:renew"

var (
	leaseLost  = []byte(`{"reason":"lease_lost"}`)
	notClaimed = []byte(`{"reason":"not_claimed"}`)
)

// joinRunLocked lets a run's owner in, and with its first join confirms the claim.
func (x *extended) joinRunLocked(t *phoenix.Topic, c *runChannel, payload []byte) (phoenix.Channel, phoenix.Reply) {
	with, reply := x.agree(payload, runExtensions)
	o := c.run.tenure.owner
	c.topic, c.owner, c.with = t, o, with
	o.topics[c], o.cancels = struct{}{}, with[extCancel]
	x.agenda.drop(o.ack)
	if !with[extLease] { // who cannot renew a lease has none: the run is its own until it is over
		x.agenda.drop(o.lease)
		o.until = time.Time{}
	}
	if o.joined.IsZero() {
		o.joined = time.Now()
	}
	if message := c.run.tenure.cancel; message != nil && !c.run.state.Final() && with[extCancel] {
		t.Send("run:cancel", cancelPayload(*message)) // behind the reply
	}
	return c, reply
}

func (x *extended) leftRun(c *runChannel) {
	x.service.mu.Lock()
	defer x.service.mu.Unlock()
	delete(c.owner.topics, c)
}

// renewLocked begins the owner's lease anew.
func (x *extended) renewLocked(c *runChannel) phoenix.Reply {
	if c.run.state.Final() {
		return phoenix.Refuse(leaseLost)
	}
	c.owner.renewals++
	x.stats.Renewals++
	x.leaseLocked(c.run, c.owner)
	return phoenix.OK(fmt.Appendf(nil, `{"lease_ms":%d}`, ms(x.cfg.Lease)))
}

// lostLocked reports whether the token is that of an owner who has lost the run,
// and if so puts the join that it came with on record.
func (x *extended) lostLocked(r *run, token string) bool {
	o := r.tenure.by(token)
	if o == nil || o == r.tenure.owner {
		return false
	}
	x.refusedLocked(r, o, frame.Join, []byte(`{}`), leaseLost)
	return true
}

// by returns the owner with the token, nil if nobody ever had it.
func (t *tenure) by(token string) *owner {
	i := slices.IndexFunc(t.owners, func(o *owner) bool { return token != "" && o.token == token })
	if i < 0 {
		return nil
	}
	return t.owners[i]
}

// refusedLocked puts on a run's record what was refused to one that it does not belong
// to.
func (x *extended) refusedLocked(r *run, o *owner, event string, payload, response []byte) {
	x.stats.Stale++
	e := Event{At: time.Now(), Event: event, Payload: payload, Status: "error", Response: response}
	if o != nil {
		e.Owner = o.number
	}
	r.events = append(r.events, e)
}

// releaseReasons are why a worker gives a run back. Only the first is a failure.
var releaseReasons = []string{"requeue", "postpone", "drain", "prefetch"}

// release takes a run back that a worker has claimed.
func (x *extended) release(p phoenix.Push) phoenix.Reply {
	if p.Binary {
		return phoenix.Crash("run:release takes no binary payload")
	}
	c := newChangeset(p.Payload)
	if c == nil || c.absent("id") || c.absent("token") {
		return phoenix.Crash("id and token must be there")
	}
	id, token, reason := c.str("id"), c.str("token"), c.str("reason")
	c.require("reason")
	c.oneOf("reason", releaseReasons)
	delay := c.delay()
	if !c.valid() {
		return phoenix.Refuse(c.response())
	}
	s := x.service
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.runs[id]
	if r == nil {
		return phoenix.Refuse(notClaimed)
	}
	o := r.tenure.by(token)
	if o == nil || o != r.tenure.owner || r.state.Final() {
		told, _ := json.Marshal(map[string]any{"reason": reason, "delay_ms": ms(delay)}) // not the token
		x.refusedLocked(r, o, "run:release", told, notClaimed)
		return phoenix.Refuse(notClaimed)
	}
	o.reason, o.delay = reason, delay
	if reason == releaseReasons[0] {
		r.tenure.attempt++
	}
	x.stats.Released++
	x.takeBackLocked(r, Released, time.Now())
	return phoenix.OK([]byte(`{}`))
}

// delay casts delay_ms, which is none if absent.
func (c *changeset) delay() time.Duration {
	const field = "delay_ms"
	if c.absent(field) {
		return 0
	}
	var n int64
	if json.Unmarshal(c.fields[field], &n) != nil || n < 0 || n > maxTimeout {
		c.fail(field, msgInvalid)
		return 0
	}
	return time.Duration(n) * time.Millisecond
}
