package phxworker

import (
	"context"
	"errors"

	"github.com/phxworker/phxworker/channel"
)

// Phase is how far a worker is in its life, which goes one way only.
type Phase int

// The phases of a worker.
const (
	PhaseNew      Phase = iota // [Worker.Run] was not called yet
	PhaseRunning               // it claims
	PhaseDraining              // it claims no more; its runs finish
	PhaseStopping              // its runs are cancelled; what is left is reported
	PhaseStopped               // Run is about to return, or has
)

func (p Phase) String() string {
	switch p {
	case PhaseNew:
		return "new"
	case PhaseRunning:
		return "running"
	case PhaseDraining:
		return "draining"
	case PhaseStopping:
		return "stopping"
	case PhaseStopped:
		return "stopped"
	}
	return "unknown"
}

func (w *Worker) moveTo(phase Phase) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.phase = phase
}

func (w *Worker) begin(s *shift) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.shift = s
}

// current returns what runs; nil before Run and after.
func (w *Worker) current() *shift {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.phase == PhaseStopped {
		return nil
	}
	return w.shift
}

func (w *Worker) end() {
	w.moveTo(PhaseStopped)
	w.feed.end()
}

// errReplaced is what is known of a connection whose end passed unseen.
var errReplaced = errors.New("the connection was lost, and another was made at once")

// follow publishes how the connection fares until ctx ends.
func (w *Worker) follow(ctx context.Context, socket *channel.Socket) {
	var last channel.Status
	for {
		status, changed := socket.Status()
		switch {
		case status.State == channel.Connected && status.Connections != last.Connections:
			if last.State == channel.Connected {
				w.feed.publish(Event{Kind: EventLost, Err: errReplaced})
			}
			w.feed.publish(Event{Kind: EventConnected})
		case status.State == channel.Connecting && status.Err != nil && (last.State == channel.Connected || last.Err == nil):
			w.feed.publish(Event{Kind: EventLost, Err: status.Err})
		}
		last = status
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}
