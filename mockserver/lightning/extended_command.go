package lightning

import (
	"encoding/json"
	"time"
)

// Cancel ends a run that waits at once, and has the worker of one that does not
// told to. That one ends when its worker reports so; a worker that has yet to join
// the run's topic, or to join it again, is told then. The message, for the worker, may be empty. The
// errors are [ErrUnknownRun], [*StateError] when the run is over, and
// [*NotAgreedError].
func (s *Service) Cancel(id, message string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.runs[id]
	switch {
	case r == nil:
		return ErrUnknownRun
	case r.state.Final():
		return &StateError{ID: id, State: r.state, Problem: "it is over already"}
	case r.state == Available:
		s.available.remove(r) // it is not there while it is delayed
		s.finishLocked(r, Cancelled, cancelled(message))
		return nil
	case s.ext == nil:
		return &NotAgreedError{ID: id, Extension: extCancel}
	}
	return s.ext.cancelLocked(r, message)
}

func (x *extended) cancelLocked(r *run, message string) error {
	o := r.tenure.owner
	told := false
	for c := range o.topics {
		if c.with[extCancel] {
			c.topic.Send("run:cancel", cancelPayload(message))
			told = true
		}
	}
	if !told && !o.joined.IsZero() && !o.cancels {
		return &NotAgreedError{ID: r.id, Extension: extCancel}
	}
	r.tenure.cancel = &message
	x.stats.Cancels++
	return nil
}

func cancelled(message string) Result { return Result{Reason: "cancel", ErrorMessage: message} }

func cancelPayload(message string) []byte {
	if message == "" {
		return []byte(`{}`)
	}
	return append(append([]byte(`{"message":`), quote(message)...), '}')
}

// Notify sends the worker of a run a JSON object, for the run. The errors are
// [ErrUnknownRun], [*StateError] when no worker has joined the run's topic just now,
// [*NotAgreedError] and [ErrNotification].
func (s *Service) Notify(id string, payload json.RawMessage) error {
	if !isObject(payload) || !json.Valid(payload) {
		return ErrNotification
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.runs[id]
	switch {
	case r == nil:
		return ErrUnknownRun
	case r.state.Final():
		return &StateError{ID: id, State: r.state, Problem: "it is over already"}
	case r.state != Available && s.ext == nil:
		return &NotAgreedError{ID: id, Extension: extNotify}
	case r.tenure.owner == nil || len(r.tenure.owner.topics) == 0:
		return &StateError{ID: id, State: r.state, Problem: "no worker has joined its topic just now"}
	}
	told := false
	for c := range r.tenure.owner.topics {
		if c.with[extNotify] {
			c.topic.Send("run:notify", payload)
			told = true
		}
	}
	if !told {
		return &NotAgreedError{ID: id, Extension: extNotify}
	}
	s.ext.stats.Notifications++
	return nil
}

// DrainWorkers tells every worker that has agreed on it to claim no more, to end its
// runs and to leave, and returns how many. It does not wait for them. Claims of
// theirs that wait are answered with nothing.
func (s *Service) DrainWorkers() int {
	x := s.ext
	if x == nil {
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	told := make(map[*member]bool)
	for _, m := range x.workers {
		for c := range m.joins {
			if !c.with[extDrain] {
				continue
			}
			c.topic.Send("worker:drain", []byte(`{}`))
			c.drained, told[m] = true, true
		}
	}
	x.endWaitsLocked(func(w *wait) bool { return w.channel.drained }, time.Now())
	for m := range told {
		x.seatLocked(m)
	}
	x.stats.Drains += int64(len(told))
	return len(told)
}
