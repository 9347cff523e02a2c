package phoenix

import (
	"net/http"
	"slices"
	"time"

	"github.com/phxworker/phxworker/channel/frame"
	"github.com/phxworker/phxworker/mockserver/fault"
)

// Faults decides what goes wrong, for tests of clients.
type Faults interface {
	// Strike is asked about each join, about each push and leave on a topic that
	// is joined, each heartbeat, and each upgrade. The rule it returns,
	// nil for none, is then done. It must not block, and is called from many
	// goroutines.
	Strike(m fault.Message) *fault.Rule
}

// twist is what a fault makes of one message. The zero value is none.
type twist struct {
	// instead is answered without asking the app.
	instead *Reply
	// delivery is how the reply is sent.
	delivery delivery
	// rule is done when the reply is sent, if that is later.
	rule *fault.Rule
	// deferred says that the reply will come later, and the rule with it.
	deferred bool
}

// fault asks for the rule that strikes a message, nil for none.
func (s *socket) fault(f *frame.Frame) *fault.Rule {
	faults := s.endpoint.cfg.Faults
	if faults == nil {
		return nil
	}
	event := f.Event
	switch {
	case f.Topic == frame.Control && f.Event == frame.Heartbeat:
		event = fault.Heartbeat
	case f.Topic == frame.Control:
		return nil
	case f.Event == frame.Join:
		event = fault.Join
	case s.topic(f.Topic) == nil:
		return nil
	case f.Event == frame.Leave:
		event = fault.Leave
	}
	return faults.Strike(fault.Message{Socket: s.id, Worker: s.name, Topic: f.Topic, Event: event, Size: s.buf.Len()})
}

// serveStruck answers a message as the rule has it.
func (s *socket) serveStruck(f *frame.Frame, rule *fault.Rule) {
	s.log.Debug("fault", "rule", rule.ID, "action", rule.Action, "topic", f.Topic, "event", f.Event)
	t, served := twistOf(rule, f.Event == frame.Join)
	deferred := false
	if served {
		t.rule = rule
		s.twist = t
		s.serve(f)
		deferred = s.twist.deferred
		s.twist = twist{}
	}
	if rule.Action == fault.Crash { // of what waits for its answer as well
		if t := s.topic(f.Topic); t != nil && rule.When == fault.After {
			s.crash(t, f.Event, "fault")
		}
		return
	}
	if !deferred {
		s.end(rule)
	}
}

// end does to the connection what the rule says. Any goroutine may call it.
func (s *socket) end(rule *fault.Rule) {
	switch rule.Action {
	case fault.Drop:
		s.shut(noCode)
	case fault.Close:
		s.shut(rule.Code)
	case fault.Restart:
		s.endpoint.Restart(rule.Code, rule.Delay)
	case fault.Stall:
		s.stall(rule.Delay)
	default: // the others are done by the twist alone
	}
}

// twistOf says how a message that the rule strikes is served, and whether it is.
func twistOf(rule *fault.Rule, join bool) (t twist, served bool) {
	switch rule.Action {
	case fault.Refuse:
		reply := Refuse(rule.Response)
		return twist{instead: &reply}, true
	case fault.Answer:
		reply := OK(rule.Response)
		return twist{instead: &reply}, true
	case fault.Crash:
		if rule.When == fault.Before {
			reply := Crash("fault")
			return twist{instead: &reply}, true
		}
		if join {
			return twist{}, true // nothing crashes that was never there
		}
		t.delivery.manner = never
	case fault.Drop, fault.Close, fault.Restart, fault.Withhold:
		t.delivery.manner = never
	case fault.Delay:
		t.delivery = delivery{manner: late, delay: rule.Delay}
	case fault.Double:
		t.delivery = delivery{manner: twice, delay: rule.Delay}
	case fault.Reorder:
		t.delivery = delivery{manner: behind, delay: rule.Delay}
	default: // Stall lets it be; Expire does not come here
	}
	return t, rule.When == fault.After
}

// askJoin has the app answer a join, or the fault.
func (s *socket) askJoin(t *Topic, f *frame.Frame) (Channel, Reply) {
	if s.twist.instead != nil {
		return nil, *s.twist.instead
	}
	return s.endpoint.cfg.App.Join(t, f.Payload)
}

// askPush has the channel answer a push, or the fault.
func (s *socket) askPush(t *Topic, f *frame.Frame) Reply {
	if s.twist.instead != nil {
		return *s.twist.instead
	}
	return t.channel.Handle(Push{Event: f.Event, Payload: f.Payload, Binary: f.Binary, topic: t, ref: f.Ref})
}

// stall has the socket handle nothing for the time given. It reads one more message at most
// meanwhile. Any goroutine may call it.
func (s *socket) stall(d time.Duration) { s.stalled.Store(time.Now().Add(d).UnixNano()) }

// awaitStall waits until a stall is over or the connection is to end.
func (s *socket) awaitStall() {
	until := s.stalled.Load()
	if until == 0 {
		return
	}
	timer := time.NewTimer(time.Until(time.Unix(0, until)))
	defer timer.Stop()
	select {
	case <-timer.C:
		s.stalled.CompareAndSwap(until, 0)
	case <-s.stopped:
	}
}

// passUpgrade asks whether a fault strikes an upgrade, and reports whether to go on with it.
// If not, the request was answered.
func (e *Endpoint) passUpgrade(w http.ResponseWriter, r *http.Request, name string) bool {
	if e.cfg.Faults == nil {
		return true
	}
	rule := e.cfg.Faults.Strike(fault.Message{Worker: name, Event: fault.Connect})
	if rule == nil {
		return true
	}
	switch rule.Action {
	case fault.Refuse:
		refuse(w, rule.Code, "")
		return false
	case fault.Delay:
		timer := time.NewTimer(rule.Delay)
		defer timer.Stop()
		select {
		case <-timer.C:
			return true
		case <-e.stop:
		case <-r.Context().Done():
		}
	default: // Drop
	}
	hangUp(w)
	return false
}

// hangUp closes the connection of a request without an answer.
func hangUp(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		refuse(w, http.StatusServiceUnavailable, "")
		return
	}
	_ = conn.Close()
}

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
	event string
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
		o.held = append(o.held, held{topic: f.Topic, event: f.Event, kind: kindOf(f), data: data, due: due, manner: m})
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
			o.putLocked(message{kind: h.kind, topic: h.topic, event: h.event})
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

// Later is the answer to a push that is still to come.
type Later struct {
	topic *Topic
	ref   frame.Ref
	// What a fault makes of it, as it would of an answer given at once.
	delivery delivery
	rule     *fault.Rule
}

// Defer lets the push be answered later: by the Later, while [Channel.Handle]
// returns the Reply. Only Handle may call it, once.
//
// A fault that strikes the push after it was applied does so when it is answered;
// only a crash ends the topic while the push still waits.
func (p Push) Defer() (*Later, Reply) {
	twist := &p.topic.socket.twist
	twist.deferred = true
	return &Later{topic: p.topic, ref: p.ref, delivery: twist.delivery, rule: twist.rule}, Reply{verdict: deferred}
}

// Answer sends the reply, which is an [OK], [Bytes] or [Refuse], and reports
// whether it could: the topic may have ended, or its connection. Call it once at most; if you
// never do, the client waits for ever. It never blocks and may be called by any goroutine.
func (l *Later) Answer(r Reply) bool {
	s := l.topic.socket
	sent := s.out.answer(l.topic, answer(l.topic.joinRef, l.ref, l.topic.name, r), l.delivery)
	if sent && l.rule != nil {
		s.end(l.rule)
	}
	return sent
}
