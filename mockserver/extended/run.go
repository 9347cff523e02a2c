package extended

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/phxworker/phxworker/channel/frame"
	"github.com/phxworker/phxworker/mockserver/changeset"
	"github.com/phxworker/phxworker/mockserver/lightning"
	"github.com/phxworker/phxworker/mockserver/phoenix"
)

var (
	leaseLost  = []byte(`{"reason":"lease_lost"}`)
	notClaimed = []byte(`{"reason":"not_claimed"}`)
)

// runChannel is run:<id>, as joined by one of the run's owners.
type runChannel struct {
	*lightning.RunChannel

	x     *Service
	topic *phoenix.Topic
	owner *owner
	with  agreed
}

var (
	_ phoenix.Channel = (*runChannel)(nil)
	_ lightning.Guard = (*runChannel)(nil)
)

// joinRun lets a run's owner in, whom Lightning lets in, and with its first join confirms the
// claim. An owner who has lost the run is told so.
func (x *Service) joinRun(t *phoenix.Topic, id string, payload []byte, plain phoenix.Channel, refusal phoenix.Reply) (phoenix.Channel, phoenix.Reply) {
	var p struct {
		Token string `json:"token"`
	}
	_ = json.Unmarshal(payload, &p) // then the token is missing
	x.Lock()
	defer x.Unlock()
	r := x.EntryLocked(id)
	if r == nil {
		return nil, refusal
	}
	tenure := tenureOf(r)
	o := tenure.by(p.Token)
	if o != nil && o.lost(r) {
		x.refusedLocked(r, o, frame.Join, []byte(`{}`), leaseLost)
		return nil, phoenix.Refuse(leaseLost)
	}
	joined, ok := plain.(*lightning.RunChannel)
	if !ok {
		return nil, refusal
	}
	with, reply := x.agree(payload, runExtensions)
	c := &runChannel{RunChannel: joined, x: x, topic: t, owner: o, with: with}
	joined.Guard = c
	o.topics[c], o.cancels = struct{}{}, with[extCancel]
	x.agenda.drop(o.ack)
	if !with[extLease] { // who cannot renew a lease has none: the run is its own until it is over
		x.agenda.drop(o.lease)
		o.until = time.Time{}
	}
	if o.joined.IsZero() {
		o.joined = time.Now()
	}
	if tenure.cancel != nil && !r.StateLocked().Final() && with[extCancel] {
		t.Send("run:cancel", cancelPayload(*tenure.cancel)) // behind the reply
	}
	return c, reply
}

// Left implements [phoenix.Channel].
func (c *runChannel) Left() {
	c.x.Lock()
	defer c.x.Unlock()
	delete(c.owner.topics, c)
}

// Refuse implements [lightning.Guard].
func (c *runChannel) Refuse() (owner int, response []byte) {
	if !c.owner.lost(c.Run) {
		return c.owner.number, nil
	}
	c.x.stats.Stale++
	return c.owner.number, leaseLost
}

// Handle implements [phoenix.Channel].
func (c *runChannel) Handle(p phoenix.Push) phoenix.Reply {
	if p.Event == "run:renew" && c.with[extLease] && !p.Binary && changeset.New(p.Payload) != nil {
		return c.renew(p)
	}
	return c.RunChannel.Handle(p)
}

// renew answers a renewal. One that succeeds is counted with the owner, and is not on the
// run's record.
func (c *runChannel) renew(p phoenix.Push) phoenix.Reply {
	c.x.Lock()
	defer c.x.Unlock()
	e := lightning.Event{At: time.Now(), Event: p.Event, Payload: bytes.Clone(p.Payload), Owner: c.owner.number}
	reply := c.renewLocked()
	c.CountLocked(&e, reply)
	if e.Status == "error" {
		c.x.NoteLocked(c.Run, e)
	}
	return reply
}

// renewLocked begins the owner's lease anew.
func (c *runChannel) renewLocked() phoenix.Reply {
	if _, lost := c.Refuse(); lost != nil || c.Run.StateLocked().Final() {
		return phoenix.Refuse(leaseLost)
	}
	c.owner.renewals++
	c.x.stats.Renewals++
	c.x.leaseLocked(c.Run, c.owner)
	return phoenix.OK(fmt.Appendf(nil, `{"lease_ms":%d}`, ms(c.x.cfg.Lease)))
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
func (x *Service) refusedLocked(r *lightning.Entry, o *owner, event string, payload, response []byte) {
	x.stats.Stale++
	e := lightning.Event{At: time.Now(), Event: event, Payload: payload, Status: "error", Response: response}
	if o != nil {
		e.Owner = o.number
	}
	x.NoteLocked(r, e)
}

// releaseReasons are why a worker returns a run. Only the first is a failure.
var releaseReasons = []string{"requeue", "postpone", "drain", "prefetch"}

// release takes a run back that a worker has claimed.
func (x *Service) release(p phoenix.Push) phoenix.Reply {
	if p.Binary {
		return phoenix.Crash("run:release takes no binary payload")
	}
	c := changeset.New(p.Payload)
	if c == nil || c.Absent("id") || c.Absent("token") {
		return phoenix.Crash("id and token must be there")
	}
	id, token, reason := c.Str("id"), c.Str("token"), c.Str("reason")
	c.Require("reason")
	c.OneOf("reason", releaseReasons)
	delay := delayOf(c)
	if !c.Valid() {
		return phoenix.Refuse(c.Response())
	}
	x.Lock()
	defer x.Unlock()
	r := x.EntryLocked(id)
	if r == nil {
		return phoenix.Refuse(notClaimed)
	}
	t := tenureOf(r)
	o := t.by(token)
	if o == nil || o.lost(r) || r.StateLocked().Final() {
		told, _ := json.Marshal(map[string]any{"reason": reason, "delay_ms": ms(delay)}) // not the token
		x.refusedLocked(r, o, "run:release", told, notClaimed)
		return phoenix.Refuse(notClaimed)
	}
	o.reason, o.delay = reason, delay
	if reason == releaseReasons[0] {
		t.attempt++
	}
	x.stats.Released++
	x.takeBackLocked(r, Released, time.Now())
	return phoenix.OK([]byte(`{}`))
}

const maxDelay = 365 * 24 * 3600 * 1000 // ms

// delayOf casts delay_ms; absent is 0.
func delayOf(c *changeset.Changeset) time.Duration {
	const field = "delay_ms"
	if c.Absent(field) {
		return 0
	}
	var n int64
	if json.Unmarshal(c.Fields[field], &n) != nil || n < 0 || n > maxDelay {
		c.Fail(field, changeset.Invalid)
		return 0
	}
	return time.Duration(n) * time.Millisecond
}
