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
// that is late must be waited for, as [patience] has it: the first copy may have
// been applied, and a second one would crash the topic.
//
// After such a second push, a refusal that says the event is there already means
// that the first copy had arrived. So does a crash of the topic, but one may be
// chance, and the event lost with it; so it takes two of them.
//
// An event that is too large, or refused for another reason, is offered with
// less in it, as long as there is less to offer.
func (o *outbox) deliver(ctx context.Context, e event) (refusal, err error) {
	pushedBefore := false
	crashes := 0 // over the event when it was pushed again
	losses := 0  // of the join, while the event was under way
	for {
		join, err := o.ready(ctx)
		if err != nil {
			return nil, err
		}
		if pushedBefore {
			o.tally.resent.Add(1)
		}
		pushed := time.Now()
		_, err = o.patience.push(ctx, join, e.name(), e.payload())
		refused := refusalOf(err)
		var tooLarge *channel.TooLargeError
		switch {
		case err == nil:
			o.tally.acknowledged.Observe(time.Since(pushed))
			return nil, nil
		case isBatch(e) && errors.Is(err, channel.ErrCrashed) && e.repeatable():
			return err, nil // most likely the server does not know such events
		case errors.Is(err, errTokenOver):
			return nil, err
		case isLeaseLost(err):
			return nil, ErrLeaseLost
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
		case errors.Is(err, channel.ErrCrashed) && pushedBefore && crashes == 0:
			crashes++
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
			if losses++; losses%manyLosses == 0 && carriesJSON(e) && e.lessen() {
				o.log.Warn("the connection was lost over an event again and again; it is offered with less", "event", e.name(), "times", losses)
			}
		case !errors.Is(err, channel.ErrNotSent):
			return nil, err
		}
	}
}

// manyLosses of a join over one event are no chance: the event is what the server
// cannot bear, and all that shares its connection suffers with it.
const manyLosses = 12

// carriesJSON reports whether there is JSON of a job's in the event that the
// server decodes with the message; an output goes as a text.
func carriesJSON(e event) bool {
	_, line := e.(*runLog)
	return line || isLast(e)
}

func isLast(e event) bool {
	_, last := e.(*runComplete)
	return last
}

// ready waits until the topic is joined, and does what a new join needs before
// its first event. That one goes out under this join or not at all: the next would
// not be ready for it.
func (o *outbox) ready(ctx context.Context) (*channel.Join, error) {
	for {
		join, err := joined(ctx, o.topic)
		switch {
		case err != nil:
			return nil, err
		case o.lease.over():
			return nil, ErrLeaseLost
		case join.Epoch == o.epoch:
			return join, nil
		}
		o.epoch = join.Epoch
		o.mu.Lock()
		rejoined := o.rejoined
		o.mu.Unlock()
		rejoined(ctx) // this join may be lost meanwhile
	}
}

// joined waits until the topic is joined. On one that is, [channel.Topic.Ready] succeeds
// even when ctx is over; pushes do not, so that whoever repeats them would do
// so for ever.
func joined(ctx context.Context, topic *channel.Topic) (*channel.Join, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return topic.Ready(ctx)
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
