package runner

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"time"
)

// event is one push of a run's topic. Its methods are called by the outbox's
// sender alone, in the order of the events; so payload sees what the server
// has acknowledged up to then.
type event interface {
	name() string
	payload() any
	// lessen takes away what the server may not want of the event, for the reason given,
	// and reports whether there was anything. What the run's log should be told of that is
	// told, unless it is nil.
	lessen(why error) (less bool, told event)
	// repeatable reports whether the event may be sent again when nobody knows
	// if it arrived.
	repeatable() bool
	// settled tells that the server has acknowledged the event, or refused it.
	settled(refusal error)
}

// plain is what most events have in common.
type plain struct{}

func (plain) lessen(error) (bool, event) { return false, nil }
func (plain) repeatable() bool           { return true }
func (plain) settled(error)              {}

// timestamp is microseconds since 1970, as a decimal string.
type timestamp time.Time

func (t timestamp) MarshalJSON() ([]byte, error) {
	return strconv.AppendQuote(nil, strconv.FormatInt(time.Time(t).UnixMicro(), 10)), nil
}

// stamp returns nil for the zero time, to leave the field out.
func stamp(t time.Time) *timestamp {
	if t.IsZero() {
		return nil
	}
	ts := timestamp(t)
	return &ts
}

// How much of an error is sent, in bytes. A job may throw anything, and an event
// over the limit of a frame is not taken at all.
const (
	maxMessage = 64 << 10
	maxName    = 256 // of its type, and of other names
)

func errorMessage(message string) *string {
	message = storableText(message)
	if len(message) > maxMessage {
		message = cut(message, maxMessage) + "… (cut)"
	}
	return &message
}

// errorType returns nil for the empty string: JSON null.
func errorType(name string) *string {
	if name == "" {
		return nil
	}
	name = cut(storableText(name), maxName)
	return &name
}

// replacement stands for what the server's database cannot store.
const replacement = "\uFFFD"

// storableText returns a text as PostgreSQL can store it: without U+0000, over which
// Lightning's channel crashes each time that it comes.
func storableText(text string) string { return strings.ReplaceAll(text, "\x00", replacement) }

// storable does the same for JSON, where U+0000 is always written as an escape.
func storable(data json.RawMessage) json.RawMessage {
	const nul = `\u0000`
	if !bytes.Contains(data, []byte(nul)) {
		return data
	}
	out := make(json.RawMessage, 0, len(data))
	for len(data) > 0 {
		switch {
		case bytes.HasPrefix(data, []byte(nul)):
			out, data = append(out, replacement...), data[len(nul):]
		case data[0] == '\\' && len(data) > 1: // what follows is no backslash of an escape
			out, data = append(out, data[:2]...), data[2:]
		default:
			out, data = append(out, data[0]), data[1:]
		}
	}
	return out
}

// cut returns the beginning of a text, without half a rune at the end.
func cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit], "")
}

type runStart struct {
	plain

	versions Versions
	at       time.Time
}

func (e *runStart) name() string { return "run:start" }
func (e *runStart) payload() any {
	return struct {
		Versions  Versions  `json:"versions"`
		Timestamp timestamp `json:"timestamp"`
	}{e.versions, timestamp(e.at)}
}

type stepStart struct {
	plain

	step *Step
	at   time.Time
	bare bool // without its input
}

// lessen leaves out the input of a step that the server does not take.
func (e *stepStart) lessen(error) (bool, event) {
	if e.bare || e.step.inputDataclipID() == "" {
		return false, nil
	}
	e.bare = true
	return true, nil
}

// settled remembers a step that the server did not take, so that the lines of
// the step can do without it.
func (e *stepStart) settled(refusal error) {
	e.step.unknown = refusal != nil && !isDuplicate(e.name(), refusalOf(refusal))
}

func (e *stepStart) name() string { return "step:start" }
func (e *stepStart) payload() any {
	p := struct {
		StepID          string    `json:"step_id"`
		JobID           string    `json:"job_id"`
		InputDataclipID string    `json:"input_dataclip_id,omitempty"`
		Timestamp       timestamp `json:"timestamp"`
	}{e.step.id, e.step.jobID, e.step.inputDataclipID(), timestamp(e.at)}
	if e.bare {
		p.InputDataclipID = ""
	}
	return p
}
