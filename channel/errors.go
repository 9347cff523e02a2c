package channel

import (
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
)

var (
	// ErrNotSent says that the server has not seen the push, so that it is safe
	// to send it again.
	ErrNotSent = errors.New("not sent")
	// ErrPayload says that a payload cannot be encoded: it does not marshal, or
	// is raw JSON that is not valid. It comes with ErrNotSent, but sending the same
	// again is of no use.
	ErrPayload = errors.New("the payload cannot be encoded")
	// ErrOutcomeUnknown says that the push was written but no reply came, so
	// that the server may have acted on it or not.
	ErrOutcomeUnknown = errors.New("sent, but the outcome is unknown")
	// ErrClosed says that the socket was closed by its Close method.
	ErrClosed = errors.New("the socket is closed")
	// ErrLeft says that the topic was left by its Leave method.
	ErrLeft = errors.New("the topic was left")
	// ErrEnded says that the server ended the channel (phx_close).
	ErrEnded = errors.New("the server closed the topic")
	// ErrCrashed says that the channel crashed on the server (phx_error), be it
	// over a push or for a reason of its own. The pushes in flight are
	// ErrOutcomeUnknown and wrap it; the topic joins again.
	ErrCrashed = errors.New("the channel crashed on the server")
	// ErrUnanswered says that the server has not answered a push in time, so that its join
	// was given up; see [Join.PushWithin] and [Join.Renew].
	ErrUnanswered = errors.New("the server has not answered in time, and the topic is joined anew")
	// ErrTaken says that the topic is joined on this socket already. Phoenix
	// would close the older of the two.
	ErrTaken = errors.New("the topic is joined on this socket already; leave it first, or use another socket")
)

// The ways a join is lost while its topic goes on.
var (
	errUnmatched    = errors.New("the server does not hold the topic as joined any more")
	errLeaveTimeout = errors.New("the server did not answer the leave in time")
	errNotJoined    = errors.New("the topic is not joined just now")
	errHeartbeat    = errors.New("the server did not answer a heartbeat")
	errUnreadable   = errors.New("the server sent a message that cannot be read")
)

// RefusedError is an answer of status error.
type RefusedError struct {
	Topic string
	// Event is the event refused; "phx_join" when it was the join.
	Event string
	// Response is what the server gave as its reason, as JSON text. It is nil if
	// it gave none.
	Response json.RawMessage
}

func (e *RefusedError) Error() string {
	reason := e.Reason()
	if reason == "" {
		reason = "no reason given"
	}
	return fmt.Sprintf("the server refused %q on %q: %s", e.Event, e.Topic, reason)
}

// Reason returns the response's "reason", as Phoenix and most applications
// name it, or a response that is a bare string, or else the JSON text; of each the start, if it
// is long.
func (e *RefusedError) Reason() string {
	var object struct{ Reason string }
	if json.Unmarshal(e.Response, &object) == nil && object.Reason != "" {
		return shorten(object.Reason, longText)
	}
	var text string
	if json.Unmarshal(e.Response, &text) == nil {
		return shorten(text, longText)
	}
	return shorten(string(e.Response), shortText)
}

// NoRoom reports whether a join was refused because the connection has as many
// topics as it may: 100 with Phoenix from 1.7.24 and 1.8.9 on, unless it is
// told otherwise. Another socket has room.
func (e *RefusedError) NoRoom() bool { return e.Reason() == "too many channels joined" }

// TooLargeError says that a message was not sent because of its size. A
// server drops the connection, and so every topic on it, over such a message;
// the connection stays unharmed. It is an [ErrNotSent], but to send the same
// again is of no use.
type TooLargeError struct {
	Topic, Event string
	Size, Limit  int // bytes of the whole message, once encoded
}

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("the message %q on %q has %d bytes, over the limit of %d; send less in one message", e.Event, e.Topic, e.Size, e.Limit)
}

// Is makes the error an ErrNotSent.
func (e *TooLargeError) Is(target error) bool { return target == ErrNotSent }

// AnswerTooLargeError says that the server answered a push, or a join, with more than is read
// here. It is an [ErrOutcomeUnknown]: what the answer was is not known. The connection and
// all else on it are unharmed, but to ask for the same again is of no use.
type AnswerTooLargeError struct {
	Topic, Event string
	// Limit is [Config.ReadLimit], or that of [Config.ReadLimits], in bytes. The size is not known
	// yet: the rest is still to come.
	Limit int64
}

func (e *AnswerTooLargeError) Error() string {
	return fmt.Sprintf("the server's answer to %q on %q has more than %d bytes, the limit", e.Event, e.Topic, e.Limit)
}

// DialError says why a connection could not be made.
type DialError struct {
	URL string // without its query, which holds tokens
	// Status is the HTTP status of a refused upgrade, 0 if there was no answer.
	Status int
	// Body is the start of the answer's body.
	Body string
	// Err is what went wrong when there was no answer.
	Err error
}

func (e *DialError) Error() string {
	if e.Status == 0 {
		text := fmt.Sprintf("cannot connect to %s: %s", e.URL, shorten(fmt.Sprint(e.Err), longText)) // it may quote the answer
		if _, ok := errors.AsType[tls.RecordHeaderError](e.Err); ok {
			text += "; there is no TLS at this port: write ws instead of wss, or the port of what has it"
		}
		return text
	}
	answer := fmt.Sprintf("%s answered HTTP %d %s", e.URL, e.Status, http.StatusText(e.Status))
	if e.Body != "" && e.Status != http.StatusNotFound { // whose body is a page about it
		answer += fmt.Sprintf(" (%q)", e.Body)
	}
	switch {
	case e.Refused():
		return answer + ": it refused the socket parameters; check the token, the secret it is made with, and the clock"
	case e.Status == http.StatusNotFound:
		return answer + ": there is no Phoenix socket at this path; check the URL"
	}
	return answer + " instead of a websocket"
}

func (e *DialError) Unwrap() error { return e.Err }

// Refused reports whether the server refused the socket parameters: 403 from
// Phoenix itself, 401 from applications with an error handler of their own.
func (e *DialError) Refused() bool {
	return e.Status == http.StatusUnauthorized || e.Status == http.StatusForbidden
}

// isRefusedDial reports whether a dial failed because the server refused the parameters.
func isRefusedDial(err error) bool {
	dial, ok := errors.AsType[*DialError](err)
	return ok && dial.Refused()
}

func notSent(cause error) error { return fmt.Errorf("%w: %w", ErrNotSent, cause) }

func outcomeUnknown(cause error) error { return fmt.Errorf("%w: %w", ErrOutcomeUnknown, cause) }

// What a server wrote goes into a line of a log up to so many bytes: JSON, and text for people.
const (
	shortText = 200
	longText  = 1000
)

// shorten cuts what a server wrote.
func shorten(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

// described adds what was being done, unless the error says so itself.
func described(doing string, err error) error {
	var refused *RefusedError
	var tooLarge *TooLargeError
	if errors.As(err, &refused) || errors.As(err, &tooLarge) || errors.As(err, new(*AnswerTooLargeError)) {
		return fmt.Errorf("channel: %w", err)
	}
	return fmt.Errorf("%s: %w", doing, err)
}
