package runner

import (
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
	// lessen takes away what the server may not want of the event, and reports
	// whether there was anything.
	lessen() bool
	// repeatable reports whether the event may be sent again when nobody knows
	// if it arrived.
	repeatable() bool
	// settled tells that the server has acknowledged the event, or refused it.
	settled(refusal error)
}

// plain is what most events have in common.
type plain struct{}

func (plain) lessen() bool     { return false }
func (plain) repeatable() bool { return true }
func (plain) settled(error)    {}

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
	name = cut(name, maxName)
	return &name
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
func (e *stepStart) lessen() bool {
	if e.bare || e.step.inputDataclipID() == "" {
		return false
	}
	e.bare = true
	return true
}

// settled remembers a step that the server did not take, so that the lines of
// the step can do without it.
func (e *stepStart) settled(refusal error) {
	e.step.unknown = refusal != nil && !thereAlready(refusalOf(refusal))
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
