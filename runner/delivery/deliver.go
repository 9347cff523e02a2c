package delivery

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/phxworker/phxworker/channel"
)

// deliver pushes one event until it is known what became of it, by the rules of docs/delivery.md. A refusal is an
// answer; err is for what ends the outbox.
func (o *Outbox) deliver(ctx context.Context, e event) (refusal, err error) {
	for {
		err := o.pushOnce(ctx, e)
		if err != nil && o.permit != nil {
			if ended := o.permit.Withdrawn(err); ended != nil {
				return nil, ended
			}
		}
		t := e.state()
		switch o.fateOf(e, err) {
		case acknowledged:
			if t.duplicate = err != nil; t.duplicate {
				o.log.Info("an event had arrived, though its answer was lost", "event", e.name())
			}
			return nil, nil
		case undelivered:
			return err, nil
		case tooMuch:
			less, told := e.lessen(err)
			if !less && !errors.Is(err, channel.ErrOutcomeUnknown) {
				return err, nil
			}
			if less {
				o.log.Warn("the server does not take an event; it is offered with less in it, or in another form", "event", e.name(), "error", err)
			}
			if told != nil { // to the run's log, before the event
				o.putFirst(told)
				if err := o.sendOne(ctx, told); err != nil {
					return nil, err
				}
			}
		case over:
			return nil, err
		case pending:
		}
	}
}

// pushOnce pushes an event under the next join, and counts what came of it.
func (o *Outbox) pushOnce(ctx context.Context, e event) error {
	t := e.state()
	join, err := o.ready(ctx)
	if err != nil {
		return err
	}
	if t.unknown > 0 && time.Now().After(o.tokenEnd) {
		return errTokenOver
	}
	pushed := time.Now()
	again := t.unknown > 0
	_, err = o.push(ctx, join, t, e.payload(), t.unanswered)
	if again && !errors.Is(err, channel.ErrNotSent) {
		o.delivery.count(func(s *Stats) { s.Resent++ })
	}
	if err == nil {
		o.delivery.count(func(s *Stats) { s.Acknowledged.Observe(time.Since(pushed)) })
	}
	if errors.As(err, new(*channel.AnswerTooLargeError)) {
		t.unread++
		o.log.Warn("the answer to an event cannot be read; its topic is joined anew", "event", e.name(), "error", err)
		join.Renew() // on this one, the event is not to be sent again
	}
	return err
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

func (o *Outbox) fateOf(e event, err error) fate {
	if err == nil {
		return acknowledged
	}
	t, refused := e.state(), refusalOf(err)
	isEnd := e.name() == endEvent
	switch {
	case errors.Is(err, errTokenOver):
		return over
	case isDuplicate(e.name(), refused):
		if t.unknown > 0 {
			return acknowledged
		}
		return undelivered // what the server has is not this worker's
	case refused != nil, errors.As(err, new(*channel.TooLargeError)), errors.Is(err, channel.ErrPayload):
		return tooMuch
	case errors.Is(err, channel.ErrNotSent):
		return pending
	case !errors.Is(err, channel.ErrOutcomeUnknown), t.unread == mostUnread && isEnd: // an end is spooled then
		return over
	case t.unread == mostUnread, o.delivery.cfg.LogsAtMostOnce && (e.name() == lineEvent || e.name() == batchEvent):
		return undelivered
	case e.name() == batchEvent && (t.crashed > 0 || t.unanswered > 0 || t.unread > 0 || t.unknown == fewLosses):
		return undelivered // its lines may do better alone
	case t.unknown%manyLosses != 0 || time.Since(t.since) < passesWithin:
		return pending
	// It may be the content of an event that the server does not bear, if it can be done without: of a line there
	// is a note. An output goes as a text, which breaks no connection, and is not given up for a crash; nor is a
	// final state, which may be the last copy of it.
	case e.name() == lineEvent && (!errors.Is(err, channel.ErrCrashed) || time.Since(t.since) > lastsLong), isEnd && !errors.Is(err, channel.ErrCrashed):
		return tooMuch
	}
	return pending
}

const (
	// mostUnread answers to one event that are too large to be read are no chance.
	mostUnread = 3
	// manyLosses of a join over one event, for longer than passesWithin, are no chance: the event is what the
	// server cannot bear, and if it takes the connection with it, all that shares that suffers too. For a batch, of
	// which no line need be the cause, it takes fewLosses.
	manyLosses, fewLosses = 12, 3
	// lastsLong is how long a server may crash over everything. A line that it crashes over for longer may be the
	// cause.
	lastsLong = time.Minute
)

// whyLess says in a run's log why something was left out of it.
func whyLess(why error) string {
	var tooLarge *channel.TooLargeError
	switch {
	case errors.As(why, &tooLarge):
		return fmt.Sprintf("the message would have %d bytes, over the %d that the server takes", tooLarge.Size, tooLarge.Limit)
	case errors.Is(why, channel.ErrOutcomeUnknown):
		return "the connection was lost over it again and again"
	case errors.Is(why, channel.ErrPayload):
		return "it is no JSON"
	}
	return "the server does not take it"
}

// ready waits until the topic is joined, and does what a new join needs before its first event. That one goes out
// under this join or not at all: the next would not be ready for it.
func (o *Outbox) ready(ctx context.Context) (*channel.Join, error) {
	for {
		join, err := joined(ctx, o.topic)
		if err == nil && o.permit != nil {
			err = o.permit.Withdrawn(nil)
		}
		switch {
		case err != nil:
			return nil, err
		case join.Epoch == o.epoch:
			return join, nil
		}
		o.epoch = join.Epoch
		o.readAgain(ctx, join) // the join may be lost meanwhile
	}
}

// joined waits until the topic is joined. On one that is, [channel.Topic.Ready] succeeds even when ctx is over;
// pushes do not, so that whoever repeats them would do so for ever.
func joined(ctx context.Context, topic *channel.Topic) (*channel.Join, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return topic.Ready(ctx)
}

// refusalOf returns the server's answer to a push, if it was a refusal. That of a join is not: it ends the topic, and
// a push which finds it so was not sent.
func refusalOf(err error) *channel.RefusedError {
	var refused *channel.RefusedError
	if errors.As(err, &refused) && refused.Event != "phx_join" {
		return refused
	}
	return nil
}

// duplicate is how Lightning says, for each event, that it has it already. It has no code for that, so the words are
// all there is. A second run:start is taken again, and a second line is another line.
var duplicate = map[string]string{
	"step:start":    "has already been taken",
	"step:complete": "has already been taken",
	"run:complete":  "already in completed state",
}

// isDuplicate reports whether the server refused an event because it has it: {"state":["already in completed
// state"]}, the same under "errors", or the sentence alone.
func isDuplicate(event string, refused *channel.RefusedError) bool {
	words, found := duplicate[event]
	return found && refused != nil && strings.Contains(string(refused.Response), words)
}

// isAbout reports whether a refusal names the field: {"field":["is invalid"]}, or the same under "errors".
func isAbout(why error, field string) bool {
	var named, nested map[string]json.RawMessage
	if refused := refusalOf(why); refused != nil && json.Unmarshal(refused.Response, &named) == nil {
		_ = json.Unmarshal(named["errors"], &nested)
	}
	return named[field] != nil || nested[field] != nil
}

// errTokenOver is why nothing is waited for any longer: the server has called the run lost by the time that its token
// is over.
var errTokenOver = errors.New("the server has not acknowledged it, and the run's token has expired meanwhile")

// untoldLife is how long a token is taken to live that does not tell: longer than runs do, and not for ever, which is
// how long a slot would be held by an event that no server answers.
const untoldLife = 24 * time.Hour

// TokenEnd returns when the token of the run is over, by which its end must have been told; it is told if the token
// says so, else the time is a guess.
func (o *Outbox) TokenEnd() (at time.Time, told bool) { return o.tokenEnd, !o.untold }

// push pushes under a join, waits for the answer, and counts what came of it. It waits twice as long for each doubling:
// a slow server must not be asked the same for ever. However late the run, it waits once. The error wraps
// [channel.ErrUnanswered], or errTokenOver.
func (o *Outbox) push(ctx context.Context, under *channel.Join, t *sending, payload any, doublings int) (channel.Reply, error) {
	const mostDoublings = 10
	answer := o.delivery.cfg.MessageTimeout
	within := answer << min(doublings, mostDoublings)
	if left := max(time.Until(o.tokenEnd), answer); left < within {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeoutCause(ctx, left, errTokenOver)
		defer stop()
	}
	pushed := time.Now()
	reply, err := under.PushWithin(ctx, within, t.event, payload)
	if t.crashed > 0 && (err == nil || refusalOf(err) != nil) {
		o.delivery.hurry()
	}
	if !errors.Is(err, channel.ErrOutcomeUnknown) {
		return reply, err
	}
	if t.unknown++; t.since.IsZero() {
		t.since = pushed
	}
	switch {
	case errors.Is(err, channel.ErrCrashed):
		if t.crashed++; t.crashed == 1 {
			o.log.Warn("the server's channel crashed over a message; it is sent again", "event", t.event)
		}
	case errors.Is(err, channel.ErrUnanswered):
		t.unanswered++
		o.log.Warn("the server has not answered a message; its topic is joined anew", "event", t.event, "after", time.Since(pushed).Round(time.Millisecond))
	}
	return reply, err
}

// lifetime returns how long a run's token is good, zero when it does not tell. Lightning makes the token when it
// gives the run away, with "nbf" for then, or else "iat", and "exp" for the end; their difference needs no clock that
// agrees with the server's. Whether to trust the token was decided before, see claim.Verifier.
func lifetime(token string) time.Duration {
	var claims jwt.RegisteredClaims
	if _, _, err := jwt.NewParser().ParseUnverified(token, &claims); err != nil || claims.ExpiresAt == nil {
		return 0
	}
	begin := cmp.Or(claims.NotBefore, claims.IssuedAt)
	if begin == nil {
		return 0
	}
	return claims.ExpiresAt.Sub(begin.Time)
}
