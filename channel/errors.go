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
	// ErrNotSent says that the server has not seen the push, so that it is safe to send it again.
	ErrNotSent = errors.New("not sent")
	// ErrPayload says that a payload cannot be encoded: it does not marshal, or it is raw JSON that is
	// not valid. It comes with ErrNotSent, but it is useless to send the same again.
	ErrPayload = errors.New("the payload cannot be encoded")
	// ErrOutcomeUnknown says that the push was written but no reply came. The server may or may not
	// have acted on it.
	ErrOutcomeUnknown = errors.New("sent, but the outcome is unknown")
	// ErrClosed says that the socket was closed by its Close method.
	ErrClosed = errors.New("the socket is closed")
	// ErrLeft says that the topic was left by its Leave method.
	ErrLeft = errors.New("the topic was left")
	// ErrEnded says that the server ended the channel (phx_close).
	ErrEnded = errors.New("the server closed the topic")
	// ErrCrashed says that the channel has crashed on the server (phx_error), over a push or for a
	// reason of its own. The pushes in flight are ErrOutcomeUnknown and wrap it; the topic joins again.
	ErrCrashed = errors.New("the channel crashed on the server")
	// ErrUnanswered says that the topic is joined anew because the server has not answered a push in
	// time; see [Join.PushWithin] and [Join.Renew].
	ErrUnanswered = errors.New("the server has not answered in time, and the topic is joined anew")
	// ErrTaken says that the topic is joined on this socket already. Phoenix would close the older one.
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
	// Response is the server's reason as JSON text; nil if it gave none.
	Response json.RawMessage
}

func (e *RefusedError) Error() string {
	reason := e.Reason()
	if reason == "" {
		reason = "no reason given"
	}
	return fmt.Sprintf("the server refused %q on %q: %s", e.Event, e.Topic, reason)
}

// Reason returns the "reason" of the response, which Phoenix and most applications set; or the response
// itself if it is a string; or else its JSON text. A long one is cut.
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

// NoRoom reports whether a join was refused because the connection has as many topics as it may have:
// by default 100, with Phoenix from 1.7.24 and 1.8.9 on. Another socket may have room.
func (e *RefusedError) NoRoom() bool { return e.Reason() == "too many channels joined" }

// TooLargeError says that a message was not sent because of its size: the server would drop the
// connection over it, with every topic. It is an [ErrNotSent], but it is useless to send the same
// again.
type TooLargeError struct {
	Topic, Event string
	Size, Limit  int // bytes of the whole message, once encoded
}

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("the message %q on %q has %d bytes, over the limit of %d; send less in one message", e.Event, e.Topic, e.Size, e.Limit)
}

// Is makes the error an ErrNotSent.
func (e *TooLargeError) Is(target error) bool { return target == ErrNotSent }

// AnswerTooLargeError says that the answer to a push or a join was too large to be read. It is an
// [ErrOutcomeUnknown], for the answer is not known. The connection is unharmed, but it is useless to
// ask for the same again.
type AnswerTooLargeError struct {
	Topic, Event string
	// Limit is [Config.ReadLimit], or that of [Config.ReadLimits], in bytes. The size is not known, for
	// the rest has yet to come.
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
	if e.Body != "" && e.Status != http.StatusNotFound { // the body of a 404 is a page that says no more
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

// Refused reports whether the server refused the socket parameters: with 403 from Phoenix itself, or
// 401 from an application with its own error handler.
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

// These bound, in bytes, what a log line quotes of a server.
const (
	shortText = 200  // of names and JSON
	longText  = 1000 // of text for people
)

// shorten cuts what a server wrote to most bytes.
func shorten(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

// described adds to an error what failed, unless the error says so itself.
func described(doing string, err error) error {
	var refused *RefusedError
	var tooLarge *TooLargeError
	if errors.As(err, &refused) || errors.As(err, &tooLarge) || errors.As(err, new(*AnswerTooLargeError)) {
		return fmt.Errorf("channel: %w", err)
	}
	return fmt.Errorf("%s: %w", doing, err)
}
