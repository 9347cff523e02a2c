package channel

import (
	"strings"

	"github.com/phxworker/phxworker/channel/frame"
)

// dispatch hands a frame to whom it concerns. It runs on the reader's
// goroutine and never blocks.
func (c *conn) dispatch(f *frame.Frame) {
	if f.IsReply() {
		w := c.take(f.Ref)
		if w == nil {
			c.stats.unknown.Add(1)
			return
		}
		a := answer{joinRef: f.JoinRef, status: f.Status, payload: c.inbox.own(f.Payload), binary: f.Binary}
		if w.join != nil && w.join.ref == f.Ref { // before any message that comes under it
			w.join.Response, w.join.answered = a.payload, true
		}
		w.answer <- a
		return
	}
	j := c.joined(f)
	if j == nil {
		return
	}
	switch f.Event {
	case frame.Error:
		c.lose(j, ErrCrashed)
	case frame.Close:
		c.lose(j, ErrEnded)
	default:
		if !c.hasRoom(len(f.Event) + len(f.Payload)) {
			j.topic.miss()
			return
		}
		// The event is a part of the message's whole head, which is not to be kept.
		m := Message{Event: strings.Clone(f.Event), Payload: c.inbox.own(f.Payload), Binary: f.Binary}
		if j.answered { // else nothing was agreed on with it yet
			m.Join = j
		}
		j.topic.deliver(m)
	}
}

// limitOf returns how large a message may be that begins so: it depends on what it answers.
func (c *conn) limitOf(beginning []byte, binary bool) int64 {
	event := ""
	if f, err := frame.DecodeHead(beginning, binary); err == nil && f.IsReply() {
		c.mu.Lock()
		if w := c.waiters[f.Ref]; w != nil {
			event = w.event
		}
		c.mu.Unlock()
	}
	limit, found := c.cfg.ReadLimits[event]
	if !found {
		limit, found = c.cfg.ReadLimits[""]
	}
	if !found {
		return c.cfg.ReadLimit
	}
	return min(max(limit, headSize), c.cfg.ReadLimit)
}

// leaveOut deals with a message that was too large to be kept, of which f is the head: whoever
// waits for it is told before the rest has come, and nobody else is disturbed. It is dispatch otherwise.
func (c *conn) leaveOut(f *frame.Frame, limit int64) {
	switch {
	case f.IsReply():
		if w := c.take(f.Ref); w != nil {
			tooLarge := &AnswerTooLargeError{Topic: f.Topic, Event: w.event, Limit: limit}
			if w.join != nil {
				tooLarge.Topic = w.join.topic.name
			}
			w.answer <- answer{lost: tooLarge}
			return
		}
		c.stats.unknown.Add(1)
	case f.Event == frame.Error, f.Event == frame.Close: // whatever they say
		c.dispatch(f)
	default:
		if j := c.joined(f); j != nil {
			j.topic.miss()
		}
	}
}

// joined returns the join that a frame belongs to, or nil, counting the frame,
// if it is for none or for an earlier one. Broadcasts have no join_ref.
func (c *conn) joined(f *frame.Frame) *Join {
	c.mu.Lock()
	j := c.joins[f.Topic]
	c.mu.Unlock()
	switch {
	case f.Event == frame.Close && (j == nil || f.JoinRef != "" && f.JoinRef != j.ref):
		return nil // the usual end of a leave, and of a join replaced by a later one
	case j == nil:
		c.stats.unknown.Add(1)
		return nil
	case f.JoinRef != "" && f.JoinRef != j.ref:
		c.stats.stale.Add(1)
		return nil
	}
	return j
}
