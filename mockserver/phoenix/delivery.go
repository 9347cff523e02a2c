package phoenix

import (
	"slices"
	"time"

	"github.com/phxworker/phxworker/channel/frame"
)

// delivery is how a reply is sent. The zero value is at once.
type delivery struct {
	manner manner
	delay  time.Duration
}

type manner int

const (
	atOnce manner = iota
	never
	late   // after the delay, and what follows on the topic behind it
	twice  // at once, and after the delay
	behind // behind the next reply on the topic, or after the delay
)

// held is a message that is not to be sent yet. The socket's writer lets it out.
type held struct {
	topic string
	kind  int // as websocket.TextMessage
	data  []byte
	due   time.Time
	// manner is late, twice or behind. Nothing on the topic overtakes what is
	// late; the others are overtaken.
	manner manner
}

func (o *outbox) deliverLocked(f *frame.Frame, d delivery) {
	switch d.manner {
	case never:
	case late:
		o.holdLocked(f, d.manner, o.freeLocked(f.Topic).Add(d.delay))
	case twice:
		o.appendLocked(f)
		o.holdLocked(f, d.manner, time.Now().Add(d.delay))
	case behind:
		waiting := func(h held) bool { return h.topic == f.Topic && h.manner == behind }
		if slices.ContainsFunc(o.held, waiting) {
			o.appendLocked(f) // this is the reply that the other waits for
			return
		}
		o.holdLocked(f, d.manner, time.Now().Add(d.delay))
	default:
		o.appendLocked(f)
	}
}

// freeLocked returns when the topic has nothing late any more.
func (o *outbox) freeLocked(topic string) time.Time {
	free := time.Now()
	for i := range o.held {
		if h := &o.held[i]; h.topic == topic && h.manner == late && h.due.After(free) {
			free = h.due
		}
	}
	return free
}

func (o *outbox) holdLocked(f *frame.Frame, m manner, due time.Time) {
	if o.closed {
		return
	}
	data, err := frame.Append(nil, f)
	size := len(data)
	for i := range o.held {
		size += len(o.held[i].data)
	}
	switch {
	case err != nil:
		o.failLocked(err)
	case size > maxPending:
		o.failLocked(errNotReading)
	default:
		o.held = append(o.held, held{topic: f.Topic, kind: kindOf(f), data: data, due: due, manner: m})
		o.wake()
	}
}

// appendAmongLocked sends a frame behind what is late on its topic, if anything
// is, and behind the frame what waits for one.
func (o *outbox) appendAmongLocked(f *frame.Frame) {
	isLate := func(h held) bool { return h.topic == f.Topic && h.manner == late }
	if slices.ContainsFunc(o.held, isLate) {
		o.holdLocked(f, late, o.freeLocked(f.Topic))
	} else {
		o.encodeLocked(f)
	}
	if f.Ref == "" {
		return // a broadcast is no reply
	}
	for i := range o.held {
		if h := o.held[i]; h.topic == f.Topic && h.manner == behind {
			h.manner, h.due = late, o.freeLocked(f.Topic)
			o.held = append(slices.Delete(o.held, i, i+1), h)
			o.wake()
			return // it was that one reply's place
		}
	}
}

// hasten sends what is to be overtaken on the topic, and second copies, as soon
// as nothing late stands before them: a channel that crashes has sent its replies
// before, and none comes from it afterwards.
func (o *outbox) hasten(topic string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	due := o.freeLocked(topic)
	overtaken := func(h held) bool { return h.topic == topic && h.manner != late }
	var last []held
	for _, h := range o.held {
		if overtaken(h) {
			h.manner, h.due = late, due
			last = append(last, h)
		}
	}
	o.held = append(slices.DeleteFunc(o.held, overtaken), last...)
	o.wake()
}

// releaseLocked moves what is due to what is pending, and returns when something
// is due next.
func (o *outbox) releaseLocked(now time.Time) (next time.Time) {
	kept := o.held[:0]
	for _, h := range o.held {
		if !h.due.After(now) {
			o.pending.data = append(o.pending.data, h.data...)
			o.putLocked(h.kind)
			continue
		}
		kept = append(kept, h)
		if next.IsZero() || h.due.Before(next) {
			next = h.due
		}
	}
	clear(o.held[len(kept):])
	o.held = kept
	return next
}
