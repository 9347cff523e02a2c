package delivery

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/phxworker/phxworker/channel"
	"github.com/phxworker/phxworker/claim"
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

// GiveUp says what of a run could not be reported, and why, and spools it if there
// is a folder for that. It is called once, when [Outbox.Deliver] has returned the cause.
func (o *Outbox) GiveUp(cause error) {
	if o.refused != nil {
		o.log.Error("the end of the run was refused; the server does not have it from this worker", "error", cause)
		return
	}
	events := make(map[string]int)
	for _, e := range o.queue {
		events[e.name()]++
		o.delivery.undeliver(e)
	}
	o.log.Error("the run was given up: the server cannot be told how it ended",
		"error", cause, "delivered", o.delivered, "undelivered", len(o.queue), "events", events)
	if o.delivery.cfg.Spool == "" {
		return
	}
	spooled := Spooled{RunID: o.run.ID, Token: o.run.Token, Cause: cause.Error(), At: time.Now(), Delivered: o.delivered}
	for _, e := range o.queue {
		payload, err := o.payloadOf(e)
		if err != nil {
			o.log.Warn("an event cannot be spooled", "event", e.name(), "error", err)
			continue
		}
		spooled.Events = append(spooled.Events, SpooledEvent{Event: e.name(), Payload: payload, Sent: e.state().unknown > 0})
	}
	if err := spooled.create(o.delivery.cfg.Spool); err != nil {
		o.log.Error("what was not delivered could not be spooled", "error", err)
		return
	}
	o.log.Warn("what was not delivered was spooled", "path", spooled.Path)
}

// payloadOf returns what would have been offered to the server. A panic in it is a mistake of ours, and must not
// keep the other events from being spooled.
func (o *Outbox) payloadOf(e event) (payload json.RawMessage, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic: %s", o.Scrub(fmt.Sprint(v)))
		}
	}()
	payload, err = json.Marshal(e.payload())
	for less := true; err != nil && less; {
		if less, _ = e.lessen(err); less {
			payload, err = json.Marshal(e.payload())
		}
	}
	return payload, err
}

// Resend reports what was spooled, and removes its file when the server has all
// of it. An event that the server refuses does not keep the others from being
// sent, the end of the run least of all; but the file stays, with what the server does not
// have, and the error is the last refusal. The server takes it only while the run's token is
// good.
func (s *Spooled) Resend(ctx context.Context, socket *channel.Socket) error {
	topic, err := socket.Join(ctx, "run:"+s.RunID, map[string]string{"token": s.Token})
	if err != nil {
		return err
	}
	defer func() { _ = topic.Leave(ctx) }()
	log := slog.New(slog.DiscardHandler)
	box := New(Config{MessageTimeout: time.Minute}, log).Open(claim.Run{ID: s.RunID, Token: s.Token, Claimed: time.Now()}, nil, log)
	box.topic = topic
	var rest []SpooledEvent
	for i, e := range s.Events {
		again := &spooledEvent{of: e}
		if e.Sent {
			again.unknown = 1
		}
		refusal, ended := box.deliver(ctx, again)
		e.Sent = again.unknown > 0
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
	sending

	of SpooledEvent
}

func (e *spooledEvent) name() string { return e.of.Event }
func (e *spooledEvent) payload() any { return e.of.Payload }
