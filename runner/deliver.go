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

// deliver pushes one event until it is known what became of it. A refusal is an
// answer; err is for what ends the outbox. The rules are those of docs/delivery.md:
//
// The event is pushed again only when the join was lost: on a live one the first copy
// may have been applied, and a second would throw the worker off the topic. A join
// under which no answer comes is given up.
//
// The server has the event once it says ok, or refuses a second copy in the words
// that mean that it is there. A crash proves nothing: the event is pushed again, as
// slowly as the topic is joined again, for as long as the run's token lives.
//
// An event that is too large, or refused for another reason, is offered with
// less in it, as long as there is less to offer.
func (o *outbox) deliver(ctx context.Context, e event) (refusal, err error) {
	var tries tries
	for {
		err := o.pushOnce(ctx, e, &tries)
		switch tries.fate(e, err) {
		case acknowledged:
			if err != nil {
				o.log.Info("an event had arrived, though its answer was lost", "event", e.name())
			}
			if tries.crashed {
				o.patience.recovered()
			}
			return nil, nil
		case undelivered:
			return err, nil
		case tooMuch:
			less, ended := o.offerLess(ctx, e, err)
			switch {
			case ended != nil:
				return nil, ended
			case less && refusalOf(err) != nil:
				tries.unknown = 0 // it is another event now
			case !less && !errors.Is(err, channel.ErrOutcomeUnknown):
				return err, nil
			}
		case over:
			if isLeaseLost(err) {
				err = ErrLeaseLost
			}
			return nil, err
		case pending:
		}
	}
}

// pushOnce pushes an event under the next join, and counts what came of it.
func (o *outbox) pushOnce(ctx context.Context, e event, t *tries) error {
	join, err := o.ready(ctx)
	if err != nil {
		return err
	}
	if t.unknown > 0 {
		if o.patience.over() {
			return errTokenOver
		}
		o.tally.resent.Add(1)
	}
	pushed := time.Now()
	_, err = o.patience.push(ctx, join, e.name(), e.payload(), t.unanswered)
	switch {
	case err == nil:
		o.tally.acknowledged.Observe(time.Since(pushed))
	case errors.Is(err, channel.ErrOutcomeUnknown):
		t.unknown++
	}
	t.crashed = t.crashed || errors.Is(err, channel.ErrCrashed)
	if errors.Is(err, errUnanswered) {
		t.unanswered++
		o.log.Warn("the server has not answered an event; its topic is joined anew", "event", e.name(), "after", time.Since(pushed).Round(time.Millisecond))
		join.Abandon()
	}
	return err
}

// tries is what is known of the copies of one event.
type tries struct {
	unknown    int // those that may have arrived
	unanswered int // those of them that were waited for
	crashed    bool
}

// fate is what is to become of an event after a push.
type fate int

const (
	acknowledged fate = iota // the server has it
	pending                  // it is to be pushed again
	tooMuch                  // it is to be offered with less in it
	undelivered              // the server does not have it, and will not
	over                     // nothing can be delivered any more
)

func (t *tries) fate(e event, err error) fate {
	refused := refusalOf(err)
	var tooLarge *channel.TooLargeError
	switch {
	case err == nil:
		return acknowledged
	case errors.Is(err, errTokenOver), isLeaseLost(err):
		return over
	case isDuplicate(e.name(), refused):
		if t.unknown > 0 {
			return acknowledged
		}
		return undelivered // what the server has is not this worker's
	case refused != nil, errors.As(err, &tooLarge), errors.Is(err, channel.ErrPayload):
		return tooMuch
	case errors.Is(err, channel.ErrNotSent):
		return pending
	case !errors.Is(err, channel.ErrOutcomeUnknown):
		return over
	case !e.repeatable(), isBatch(e) && errors.Is(err, channel.ErrCrashed): // the server may not know batches
		return undelivered
	case t.unknown%manyLosses == 0 && mayBeTheCause(e, err):
		return tooMuch
	}
	return pending
}

// manyLosses of a join over one event are no chance: the event is what the server
// cannot bear, and if it takes the connection with it, all that shares that suffers too.
const manyLosses = 12

// mayBeTheCause reports whether it may be the content of an event that the server does
// not bear, and can be done without: of a line there is a note. An output goes as a text,
// which breaks no connection, and is not given up for a crash; nor is a final state,
// which may be the last copy of it.
func mayBeTheCause(e event, err error) bool {
	_, line := e.(*runLog)
	_, last := e.(*runComplete)
	return line || last && !errors.Is(err, channel.ErrCrashed)
}

// offerLess takes something out of an event, and reports whether there was anything. The
// run's log is told first, under the same rules.
func (o *outbox) offerLess(ctx context.Context, e event, why error) (less bool, ended error) {
	less, told := e.lessen(why)
	if !less {
		return false, nil
	}
	o.log.Warn("the server does not take an event; it is offered with less", "event", e.name(), "error", why)
	if told == nil {
		return true, nil
	}
	refusal, ended := o.deliver(ctx, told)
	if ended == nil {
		o.settle(told, refusal)
	}
	return true, ended
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
		rejoined(ctx, join) // it may be lost meanwhile
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

// duplicate is how Lightning says, for each event, that it has it already. It has no
// code for that, so the words are all there is. A second run:start is taken again, and
// a second line is another line.
var duplicate = map[string]string{
	"step:start":    "has already been taken",
	"step:complete": "has already been taken",
	"run:complete":  "already in completed state",
}

// isDuplicate reports whether the server refused an event because it has it:
// {"state":["already in completed state"]}, the same under "errors", or the sentence
// alone.
func isDuplicate(event string, refused *channel.RefusedError) bool {
	words, found := duplicate[event]
	var response any
	return found && refused != nil && json.Unmarshal(refused.Response, &response) == nil && says(response, words)
}

func says(response any, words string) bool {
	switch r := response.(type) {
	case string:
		return strings.Contains(r, words)
	case []any:
		return slices.ContainsFunc(r, func(item any) bool { return says(item, words) })
	case map[string]any:
		for _, item := range r {
			if says(item, words) {
				return true
			}
		}
	}
	return false
}

// names reports whether a refusal is about the field: {"field":["is invalid"]}, or the same
// under "errors".
func names(why error, field string) bool {
	refused := refusalOf(why)
	var response map[string]json.RawMessage
	if refused == nil || json.Unmarshal(refused.Response, &response) != nil {
		return false
	}
	if nested, found := response["errors"]; found {
		response = nil
		if json.Unmarshal(nested, &response) != nil {
			return false
		}
	}
	_, found := response[field]
	return found
}
