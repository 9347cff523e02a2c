package delivery

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/phxworker/phxworker/channel"
)

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

// Read pushes a read on the run's topic until it is answered; a refusal is an answer. It reports whether an earlier one
// may have been answered as well. An answer that is large may take its time. The error is an [Unread], or that of the
// topic or ctx, which have ended. A credential that was read is read again under each new join, before the first event.
func (o *Outbox) Read(ctx context.Context, topic *channel.Topic, event string, payload any, large bool) (reply channel.Reply, again bool, err error) {
	t, began := sending{event: event}, time.Now()
	for {
		join, err := joined(ctx, topic)
		if err != nil {
			return channel.Reply{}, t.unknown > 0, err
		}
		doublings := min(t.unanswered, 1)
		if large {
			doublings = 1
		}
		again = t.unknown > 0
		reply, err = o.push(ctx, join, &t, payload, doublings)
		took := time.Since(began)
		lost := t.unknown - t.unanswered - t.crashed
		switch {
		case err == nil:
			if event == repeatedRead {
				o.mu.Lock()
				o.credentials = append(o.credentials, payload)
				o.mu.Unlock()
			}
			return reply, again, nil
		case errors.Is(err, errTokenOver), errors.As(err, new(*channel.AnswerTooLargeError)), errors.As(err, new(*channel.TooLargeError)), errors.Is(err, channel.ErrPayload), refusalOf(err) != nil:
			return channel.Reply{}, again, unread(event, err)
		case errors.Is(err, channel.ErrNotSent):
			continue
		case !errors.Is(err, channel.ErrOutcomeUnknown):
			return channel.Reply{}, again, err
		case t.unanswered >= mostUnanswered, took >= passesWithin && (t.crashed >= mostCrashes || lost >= manyLosses):
			return channel.Reply{}, true, givenUp(took, t.crashed, t.unanswered, lost)
		}
	}
}

// repeatedRead is the read whose answer concerns the server as well as the worker.
const repeatedRead = "fetch:credential"

// againWithin bounds the second read of the credentials.
const againWithin = 10 * time.Second

// readAgain reads the credentials once more for the server's sake, under a new join: it scrubs their secrets from the
// log of a run, but forgets them with each join. That is worth one try, for the worker has scrubbed them itself; where
// the server fails over it, there is none after the next rejoin.
func (o *Outbox) readAgain(ctx context.Context, join *channel.Join) {
	o.mu.Lock()
	credentials := o.credentials
	o.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, againWithin)
	defer cancel()
	for _, payload := range credentials {
		_, err := join.PushWithin(ctx, againWithin, repeatedRead, payload)
		if err == nil {
			continue
		}
		o.log.Warn("a credential could not be fetched again after a rejoin; the worker alone scrubs it from the log", "error", err)
		if errors.Is(err, channel.ErrCrashed) || errors.Is(err, channel.ErrUnanswered) || ctx.Err() != nil {
			o.mu.Lock()
			o.credentials = nil
			o.mu.Unlock()
		}
		if refusalOf(err) == nil {
			return
		}
	}
}

// Unread is why a read was refused or given up, for who reads the run's log.
type Unread string

func (e Unread) Error() string { return string(e) }

// unread says in words why a read has failed for good. Of what the server answered, it is the beginning if it is long:
// a bare string without its quotes, else the JSON.
func unread(event string, err error) (why Unread) {
	tooLarge, isTooLarge := errors.AsType[*channel.AnswerTooLargeError](err)
	refused := refusalOf(err)
	switch {
	case refused != nil:
		if json.Unmarshal(refused.Response, &why) != nil {
			why = Unread(refused.Response)
		}
		return Unread(Short(string(why)))
	case errors.Is(err, errTokenOver):
		return Unread(errTokenOver.Error())
	case isTooLarge:
		why = Unread(fmt.Sprintf("the server's answer has more than the %d bytes that this worker reads", tooLarge.Limit))
		if event == "fetch:dataclip" { // all else has a limit of its own
			why += " (its option --read-limit)"
		}
		return why
	}
	return Unread(err.Error())
}

func givenUp(after time.Duration, crashed, unanswered, lost int) Unread {
	var why []string
	count := func(times int, what string) {
		if times > 0 {
			why = append(why, fmt.Sprintf("%s, %d times", what, times))
		}
	}
	count(crashed, "the server's channel crashed over it")
	count(unanswered, "the server did not answer it")
	count(lost, "the connection was lost over it")
	return Unread(fmt.Sprintf("given up after %v: %s", after.Round(time.Second), strings.Join(why, "; ")))
}
