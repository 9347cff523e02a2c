package runner

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/phxworker/phxworker/channel"
)

// deliver pushes one event until the server has answered it. A refusal is an
// answer; err is for what ends the outbox. The rules are those of
// docs/delivery.md:
//
// The event is pushed again only when the join was lost. On a live join a reply
// that is late must be waited for: the first copy may have been applied, and a
// second one would crash the topic.
//
// After such a second push, a refusal that says the event is there already, and
// a crash of the topic, mean that the first copy had arrived.
//
// An event that is too large, or refused for another reason, is offered with
// less in it, as long as there is less to offer.
func (o *outbox) deliver(ctx context.Context, e event) (refusal, err error) {
	pushedBefore := false
	for {
		if err := o.ready(ctx); err != nil {
			return nil, err
		}
		err := o.push(ctx, e)
		refused := refusalOf(err)
		var tooLarge *channel.TooLargeError
		switch {
		case err == nil:
			return nil, nil
		case refused != nil && thereAlready(refused):
			if pushedBefore {
				o.log.Info("an event had arrived before the connection was lost", "event", e.name())
				return nil, nil
			}
			o.log.Warn("the server has an event already that was not sent before", "event", e.name(), "error", err)
			return err, nil
		case refused != nil, errors.As(err, &tooLarge), errors.Is(err, channel.ErrPayload):
			if e.lessen() {
				o.log.Warn("the server does not take an event; it is offered with less", "event", e.name(), "error", err)
				pushedBefore = false
				continue
			}
			o.log.Warn("the server does not take an event of the run", "event", e.name(), "error", err)
			return err, nil
		case errors.Is(err, channel.ErrCrashed) && pushedBefore && isLast(e) && e.lessen():
			// The last event must not be taken for delivered lightly. Less of it
			// does no harm if it was: the server then says so.
			o.log.Warn("the topic crashes over the end of the run; it is offered with less", "event", e.name())
		case errors.Is(err, channel.ErrCrashed) && pushedBefore:
			o.log.Warn("the topic crashed over an event that was sent again; the first copy had arrived", "event", e.name())
			return nil, nil
		case errors.Is(err, channel.ErrOutcomeUnknown):
			if !e.repeatable() {
				o.log.Warn("an event may be lost with the connection, and is not to be sent twice", "event", e.name())
				return err, nil
			}
			pushedBefore = true
		case !errors.Is(err, channel.ErrNotSent):
			return nil, err
		}
	}
}

func isLast(e event) bool {
	_, last := e.(*runComplete)
	return last
}

// ready waits until the topic is joined, and does what a new join needs before
// its first event.
func (o *outbox) ready(ctx context.Context) error {
	for {
		epoch, err := joined(ctx, o.topic)
		if err != nil || epoch == o.epoch {
			return err
		}
		o.epoch = epoch
		o.rejoined(ctx) // this join may be lost meanwhile
	}
}

// joined waits until the topic is joined. On one that is, [channel.Topic.Ready] succeeds
// even when ctx is over; pushes do not, so that whoever repeats them would do
// so for ever.
func joined(ctx context.Context, topic *channel.Topic) (epoch int, err error) {
	if ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}
	return topic.Ready(ctx)
}

func (o *outbox) push(ctx context.Context, e event) error {
	overdue := time.AfterFunc(o.patience, func() {
		o.log.Warn("the server has not answered yet; still waiting", "event", e.name(), "after", o.patience)
	})
	defer overdue.Stop()
	_, err := o.topic.Push(ctx, e.name(), e.payload())
	return err
}

// refusalOf returns the server's answer to a push, if it was a refusal. That of
// a join is not: it ends the topic, and a push which finds it so was not sent.
func refusalOf(err error) *channel.RefusedError {
	var refused *channel.RefusedError
	if errors.As(err, &refused) && refused.Event != "phx_join" {
		return refused
	}
	return nil
}

// thereAlready reports whether the server refused an event because it has it:
// {"state":["already in completed state"]}, {"id":["has already been taken"]},
// the same under "errors", or such a sentence alone. Lightning has no code for
// it, so the sentences are all there is.
func thereAlready(refused *channel.RefusedError) bool {
	var response any
	return refused != nil && json.Unmarshal(refused.Response, &response) == nil && saysAlready(response)
}

func saysAlready(v any) bool {
	switch v := v.(type) {
	case string:
		return strings.Contains(v, "already")
	case []any:
		return slices.ContainsFunc(v, saysAlready)
	case map[string]any:
		for _, item := range v {
			if saysAlready(item) {
				return true
			}
		}
	}
	return false
}
