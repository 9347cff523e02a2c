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

// errTokenOver is why nothing is waited for any longer: the server has called the run lost by the time that its token
// is over.
var errTokenOver = errors.New("the server has not acknowledged it, and the run's token has expired meanwhile")

// untoldLife is how long a token is taken to live that does not tell: longer than runs do, and not for ever, which is
// how long a slot would be held by an event that no server answers.
const untoldLife = 24 * time.Hour

// TokenEnd returns when the token of the run is over, by which its end must have been told; it is told if the token
// says so, else the time is a guess.
func (o *Outbox) TokenEnd() (at time.Time, told bool) { return o.tokenEnd, !o.untold }

// push waits for the answer to one push under a join, twice as long for each time that it went unanswered before: a
// slow server must not be asked the same for ever. However late the run, it waits once. The error wraps
// [channel.ErrUnanswered], or errTokenOver.
func (o *Outbox) push(ctx context.Context, under *channel.Join, event string, payload any, before int) (channel.Reply, error) {
	const mostDoublings = 10
	answer := o.delivery.cfg.MessageTimeout
	within := answer << min(before, mostDoublings)
	if left := max(time.Until(o.tokenEnd), answer); left < within {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeoutCause(ctx, left, errTokenOver)
		defer stop()
	}
	return under.PushWithin(ctx, within, event, payload)
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

// A read is given up once it is no passing fault any more: when the server has not answered it mostUnanswered times, or
// when it has crashed over it mostCrashes times, or the connection was lost over it manyLosses times, and that has
// lasted. A number alone says nothing, for the pauses between tries are random.
const (
	mostUnanswered = 3
	mostCrashes    = 5
)

// passesWithin is how long a fault may last that has nothing to do with what is sent: a restart, or a proxy that takes
// connections before there is a server.
const passesWithin = 30 * time.Second

// Read pushes a read on the run's topic until it is answered; a refusal is an answer. It reports whether an earlier
// one may have been answered as well. An answer that is large may take its time. The error is one for [WhyUnread], or
// for the topic or ctx, which have ended.
func (o *Outbox) Read(ctx context.Context, topic *channel.Topic, event string, payload any, large bool) (reply channel.Reply, again bool, err error) {
	began := time.Now()
	unanswered, crashed, lost := 0, 0, 0
	for {
		join, err := joined(ctx, topic)
		if err != nil {
			return channel.Reply{}, again, err
		}
		doublings := 0
		if large || unanswered > 0 {
			doublings = 1
		}
		reply, err = o.push(ctx, join, event, payload, doublings)
		switch {
		case err == nil:
			if crashed > 0 {
				o.delivery.hurry()
			}
			return reply, again, nil
		case errors.Is(err, errTokenOver), errors.As(err, new(*channel.AnswerTooLargeError)), errors.As(err, new(*channel.TooLargeError)), errors.Is(err, channel.ErrPayload):
			return channel.Reply{}, again, unread(event, err)
		case errors.Is(err, channel.ErrNotSent):
			continue
		case !errors.Is(err, channel.ErrOutcomeUnknown):
			return channel.Reply{}, again, err
		case errors.Is(err, channel.ErrUnanswered):
			unanswered++
			o.log.Warn("the server has not answered a read; its topic is joined anew", "event", event)
		case errors.Is(err, channel.ErrCrashed):
			crashed++
		default:
			lost++
		}
		again = true
		took := time.Since(began)
		if unanswered >= mostUnanswered || took >= passesWithin && (crashed >= mostCrashes || lost >= manyLosses) {
			return channel.Reply{}, again, givenUp(took, crashed, unanswered, lost)
		}
	}
}

// unreadError is why a read was given up, for who reads the run's log.
type unreadError string

func (e unreadError) Error() string { return string(e) }

func unread(event string, err error) unreadError {
	var tooLarge *channel.AnswerTooLargeError
	switch {
	case errors.Is(err, errTokenOver):
		err = errTokenOver
	case errors.As(err, &tooLarge):
		option := ""
		if event == "fetch:dataclip" { // all else has a limit of its own
			option = " (its option --read-limit)"
		}
		return unreadError(fmt.Sprintf("the server's answer has more than the %d bytes that this worker reads%s", tooLarge.Limit, option))
	}
	return unreadError(err.Error())
}

func givenUp(after time.Duration, crashed, unanswered, lost int) unreadError {
	var why []string
	for _, c := range []struct {
		times int
		what  string
	}{{crashed, "the server's channel crashed over it"}, {unanswered, "the server did not answer it"}, {lost, "the connection was lost over it"}} {
		if c.times > 0 {
			why = append(why, fmt.Sprintf("%s, %d times", c.what, c.times))
		}
	}
	return unreadError(fmt.Sprintf("given up after %v: %s", after.Round(time.Second), strings.Join(why, "; ")))
}

// WhyUnread returns why a read was refused or given up, for who reads the run's log; it is not ok if what has ended
// is the topic, or the context. Of what the server answered, it is the beginning if it is long: a bare string without
// its quotes, else the JSON.
func WhyUnread(err error) (why string, ok bool) {
	var gaveUp unreadError
	switch refused := refusalOf(err); {
	case refused != nil:
		if json.Unmarshal(refused.Response, &why) != nil {
			why = string(refused.Response)
		}
		return Cut(why, MaxWords, "…"), true
	case errors.As(err, &gaveUp):
		return gaveUp.Error(), true
	}
	return "", false
}

// MaxWords is how many bytes are kept of what a server has to say about a run: they are kept, with others, for the
// status, and go back to the server.
const MaxWords = 1000
