package extended

import (
	"encoding/json"
	"time"

	"github.com/phxworker/phxworker/mockserver/lightning"
)

// Cancel ends a run that waits at once, and has the worker of one that does not
// told to. That one ends when its worker reports so; a worker that has yet to join
// the run's topic, or to join it again, is told then. The message, for the worker, may be empty. The
// errors are [lightning.ErrUnknownRun], [*lightning.StateError] when the run is over, and
// [*lightning.NotAgreedError].
func (x *Service) Cancel(id, message string) error {
	x.Lock()
	defer x.Unlock()
	r, err := x.UnfinishedLocked(id)
	if err != nil {
		return err
	}
	if r.StateLocked() == lightning.Available {
		x.CancelLocked(r, message)
		return nil
	}
	t := tenureOf(r)
	told := false
	for c := range t.owner.topics {
		if c.with[extCancel] {
			c.topic.Send("run:cancel", cancelPayload(message))
			told = true
		}
	}
	if !told && !t.owner.joined.IsZero() && !t.owner.cancels {
		return &lightning.NotAgreedError{ID: id, Extension: extCancel}
	}
	t.cancel = &message
	x.stats.Cancels++
	return nil
}

func cancelPayload(message string) []byte {
	if message == "" {
		return []byte(`{}`)
	}
	return append(append([]byte(`{"message":`), lightning.Quote(message)...), '}')
}

// Notify sends the worker of a run a JSON object, for the run. The errors are
// [lightning.ErrUnknownRun], [*lightning.StateError] when no worker has joined the run's topic
// just now, and [*lightning.NotAgreedError].
func (x *Service) Notify(id string, payload json.RawMessage) error {
	x.Lock()
	defer x.Unlock()
	r, err := x.UnfinishedLocked(id)
	if err != nil {
		return err
	}
	o := tenureOf(r).owner
	if o == nil || len(o.topics) == 0 {
		return lightning.NotJoined(r)
	}
	told := false
	for c := range o.topics {
		if c.with[extNotify] {
			c.topic.Send("run:notify", payload)
			told = true
		}
	}
	if !told {
		return &lightning.NotAgreedError{ID: id, Extension: extNotify}
	}
	x.stats.Notifications++
	return nil
}

// Pause has a worker, by its worker_id, be given no run until it is resumed, or has left and is forgotten. What it has goes on. It reports whether
// there is such a worker.
func (x *Service) Pause(id string, paused bool) bool {
	x.Lock()
	defer x.Unlock()
	m := x.workers[id]
	if m == nil {
		return false
	}
	m.paused = paused
	x.seatLocked(m)
	x.WakeSoon()
	return true
}

// DrainWorkers tells every worker that has agreed on it, or the one with that id alone unless it is empty, to claim no
// more, to end its runs and to leave, and returns how many. It does not wait for them. Claims of
// theirs that wait are answered with nothing.
func (x *Service) DrainWorkers(id string) int {
	x.Lock()
	defer x.Unlock()
	told := make(map[*member]bool)
	for _, m := range x.workers {
		if id != "" && id != m.id {
			continue
		}
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
