package phoenix

import (
	"net/http"
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

// suffer handles a message as the rule has it.
func (s *socket) suffer(f *frame.Frame, rule *fault.Rule) {
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

// end does what a rule has in store for the connection. Any goroutine may call it.
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
	default: // the twist was all
	}
}

// twistOf says how a message that the rule strikes is served, and whether it is.
func twistOf(rule *fault.Rule, join bool) (t twist, served bool) {
	switch rule.Action {
	case fault.Refuse:
		reply := Refuse(rule.Response)
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

// stall lets the socket handle nothing for so long. It has read one message more
// by then at most. Any goroutine may call it.
func (s *socket) stall(d time.Duration) { s.stalled.Store(time.Now().Add(d).UnixNano()) }

// rest waits until a stall is over or the connection is to end.
func (s *socket) rest() {
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

// spare asks whether a fault strikes an upgrade. It reports whether to go on with
// it; if not, it was answered.
func (e *Endpoint) spare(w http.ResponseWriter, r *http.Request, name string) bool {
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
