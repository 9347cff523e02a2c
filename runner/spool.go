package runner

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"time"

	"github.com/phxworker/phxworker/channel"
)

// Spooled is what could not be reported of a run: the events that the server has
// not acknowledged, oldest first. It is kept as a JSON file <run id>.json in the
// folder [Config.Spool], readable by its owner only, for it holds the run's
// token. An id that is no plain file name has another one like it; what the file says counts.
type Spooled struct {
	RunID string `json:"run_id"`
	Token string `json:"token"`
	// Cause is why the run was given up.
	Cause string    `json:"cause"`
	At    time.Time `json:"at"`
	// Delivered is how many events the server had taken before.
	Delivered int            `json:"delivered"`
	Events    []SpooledEvent `json:"events"`
	// Path is where it was read from.
	Path string `json:"-"`
}

// SpooledEvent is one push that is still to be made.
type SpooledEvent struct {
	Event   string          `json:"event"`
	Payload json.RawMessage `json:"payload"`
	// Sent is whether a copy was pushed of which nobody knows whether it arrived.
	Sent bool `json:"sent,omitempty"`
}

// giveUp says, once, what of a run could not be reported, and spools it if there
// is a folder for that. It returns the cause.
func (r *Runner) giveUp(run *Run, cause error) error {
	if r.isLost(run, cause) {
		return ErrLeaseLost
	}
	rest, delivered := run.outbox.undelivered()
	events := make(map[string]int)
	for _, e := range rest {
		events[e.name()]++
		r.tally.undeliver(e.name(), 1)
	}
	run.log.Error("the run was given up: the server cannot be told how it ended",
		"error", cause, "delivered", delivered, "undelivered", len(rest), "events", events)
	if r.cfg.Spool == "" {
		return cause
	}
	path, err := r.spool(run, rest, delivered, cause)
	if err != nil {
		run.log.Error("what was not delivered could not be spooled", "error", err)
		return cause
	}
	run.log.Warn("what was not delivered was spooled", "path", path)
	return cause
}

// isLost reports whether the server ended the topic because the run is another
// worker's by now. Then there is nothing to be spooled.
func (r *Runner) isLost(run *Run, cause error) bool {
	_, leased := run.outbox.lease.left()
	return isLeaseLost(cause) || leased && errors.Is(cause, channel.ErrEnded)
}

func (r *Runner) spool(run *Run, rest []event, delivered int, cause error) (path string, err error) {
	spooled := Spooled{RunID: run.ID, Token: run.given.Token, Cause: cause.Error(), At: time.Now(), Delivered: delivered}
	for i, e := range rest {
		payload, err := payloadOf(run, e)
		if err != nil {
			run.log.Warn("an event cannot be spooled", "event", e.name(), "error", err)
			continue
		}
		spooled.Events = append(spooled.Events, SpooledEvent{Event: e.name(), Payload: payload, Sent: i == 0 && run.outbox.doubtful})
	}
	err = spooled.create(r.cfg.Spool)
	return spooled.Path, err
}

// payloadOf returns what would have been offered to the server.
func payloadOf(run *Run, e event) (payload json.RawMessage, err error) {
	mistake := run.survive(func() error {
		payload, err = json.Marshal(e.payload())
		for less := true; err != nil && less; {
			if less, _ = e.lessen(err); less {
				payload, err = json.Marshal(e.payload())
			}
		}
		return nil
	})
	return payload, cmp.Or(mistake, err)
}

// Resend reports what was spooled, and removes its file when the server has all
// of it. An event that the server refuses does not keep the others from being
// sent, the end of the run least of all; but the file stays, with what the server does not
// have, and the error is the last refusal. The server takes it only while the run's token is
// good.
func (s *Spooled) Resend(ctx context.Context, socket *channel.Socket) error {
	topic, err := socket.Join(ctx, "run:"+s.RunID, joinPayload{token: s.Token})
	if err != nil {
		return err
	}
	defer func() { _ = topic.Leave(ctx) }()
	log := slog.New(slog.DiscardHandler)
	box := newOutbox(topic, log, 0, newPatience(s.Token, time.Now(), time.Minute, func() {}), new(tally))
	var rest []SpooledEvent
	for i, e := range s.Events {
		tries := new(tries)
		if e.Sent {
			tries.unknown = 1
		}
		refusal, ended := box.deliver(ctx, &spooledEvent{of: e}, tries)
		e.Sent = tries.unknown > 0
		if ended != nil {
			rest = append(append(rest, e), s.Events[i+1:]...)
			err = ended
			break
		}
		if refusal != nil {
			rest, err = append(rest, e), refusal
		}
	}
	if len(rest) == 0 {
		return os.Remove(s.Path)
	}
	s.Delivered += len(s.Events) - len(rest)
	s.Events = rest
	return errors.Join(err, s.replace())
}

type spooledEvent struct {
	plain

	of SpooledEvent
}

func (e *spooledEvent) name() string { return e.of.Event }
func (e *spooledEvent) payload() any { return e.of.Payload }
