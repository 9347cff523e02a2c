package command

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/phxworker/phxworker/runner"
)

// kind says what a line of a process's output is.
type kind int

const (
	output  kind = iota // not a message: something printed
	ready               // the process takes messages
	logLine             // a line of the run's log
	stepStart
	stepComplete
	end
	malformed // a message that cannot be read
	tooLong   // a message longer than Config.MaxLine
)

// kinds are the types of messages from a process.
var kinds = map[string]kind{
	"ready": ready, "log": logLine, "step-start": stepStart, "step-complete": stepComplete, "end": end,
}

func (k kind) String() string {
	for name, known := range kinds {
		if known == k {
			return name
		}
	}
	return [...]string{output: "output", malformed: "malformed", tooLong: "too long"}[k]
}

// message is one line that a process wrote. The fields are those of all
// messages; absent ones are zero.
type message struct {
	kind kind
	text string // of output: the line; of a malformed message: what is wrong
	// more tells that the process had written more behind an end already.
	more bool

	Type     string   `json:"type"`
	Versions rawField `json:"versions"`

	Step    string   `json:"step"`
	Level   string   `json:"level"`
	Source  string   `json:"source"`
	Message rawField `json:"message"` // an array
	Time    float64  `json:"time"`    // ms since 1970

	Job  string `json:"job"`
	From string `json:"from"`

	Reason          string          `json:"reason"`
	ErrorType       string          `json:"error_type"`
	ErrorMessage    string          `json:"error_message"`
	State           json.RawMessage `json:"state"`
	StateTooLarge   bool            `json:"state_too_large"` // and so left out
	Leaf            *bool           `json:"leaf"`
	WebhookResponse json.RawMessage `json:"webhook_response"`
	Duration        float64         `json:"duration"` // ms
	Memory          struct {
		Job    float64 `json:"job"` // bytes
		System float64 `json:"system"`
	} `json:"memory"`
	ThreadID string `json:"thread_id"`

	// Last tells, in an end, that the process takes no other run.
	Last bool `json:"last"`
}

// maxOutput is how much is kept of a line that is no message.
const maxOutput = 64 << 10

// parse reads a line; the message does not alias it. An object is only a message
// if its type is known, so that what a job prints is seldom taken for one.
func parse(line []byte) message {
	line = bytes.TrimSpace(line)
	if !utf8.Valid(line) { // the server would close the connection over it
		line = bytes.ToValidUTF8(line, []byte("\uFFFD"))
	}
	if len(line) == 0 || line[0] != '{' {
		return printed(line)
	}
	m := message{}
	err := json.Unmarshal(line, &m)
	known := kinds[m.Type]
	if known == output {
		return printed(line)
	}
	if wrongType, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return message{kind: malformed, text: fmt.Sprintf("%q of a %s message is of type %s", wrongType.Field, m.Type, wrongType.Value)}
	}
	if err != nil {
		return printed(line)
	}
	m.kind = known
	if name := m.longName(); name != "" {
		return message{kind: malformed, text: fmt.Sprintf("%q in a message of type %s has more than %d bytes", name, m.Type, maxName)}
	}
	m.shorten()
	if known == logLine && len(m.Message) > 0 && m.Message[0] != '[' && string(m.Message) != "null" {
		return message{kind: malformed, text: `"message" of a log message is no array`}
	}
	return m
}

// How long texts may be, in bytes. What is kept until the run is over or waits in the
// outbox, which counts what is large by nature, must not be as long as a message.
const (
	maxName  = 1 << 10   // of a step, and of other things
	maxWord  = 64        // that is one of a few
	maxError = 128 << 10 // more than a server gets
)

// longName returns which of the names that are kept for as long as the run lasts is too
// long, empty if none is.
func (m *message) longName() string {
	switch {
	case len(m.Step) > maxName:
		return "step"
	case len(m.From) > maxName:
		return "from"
	case len(m.Job) > maxName:
		return "job"
	case len(m.Reason) > maxName:
		return "reason"
	}
	return ""
}

// shorten bounds the texts of which a server gets the beginning only.
func (m *message) shorten() {
	for _, text := range []struct {
		of   *string
		most int
	}{{&m.Level, maxWord}, {&m.Source, maxWord}, {&m.ErrorType, maxName}, {&m.ThreadID, maxName}, {&m.ErrorMessage, maxError}} {
		if len(*text.of) > text.most {
			*text.of = strings.Clone(strings.ToValidUTF8((*text.of)[:text.most], ""))
		}
	}
}

// rawField is a field that is read later, within bounds: as Go values, a
// message of many small items takes fifty times the memory of its text.
type rawField = json.RawMessage

const (
	maxVersions = 64 << 10 // bytes
	maxItems    = 4 << 20  // bytes; far more than a server takes as a line
)

// versions returns what [runner.Versions] may hold: texts, and lists of them.
func (m *message) versions() runner.Versions {
	var all map[string]any
	if len(m.Versions) > maxVersions || json.Unmarshal(m.Versions, &all) != nil {
		return nil
	}
	versions := make(runner.Versions, len(all))
	for name, version := range all {
		switch version := version.(type) {
		case string:
			versions[name] = version
		case []any:
			list := []string{}
			for _, one := range version {
				if text, ok := one.(string); ok {
					list = append(list, text)
				}
			}
			versions[name] = list
		}
	}
	return versions
}

// items returns the values of a line; a line that is too large for that is one.
func (m *message) items() []json.RawMessage {
	var items []json.RawMessage
	if len(m.Message) == 0 {
		return nil
	}
	if len(m.Message) > maxItems || json.Unmarshal(m.Message, &items) != nil {
		return []json.RawMessage{m.Message}
	}
	return items
}

func printed(line []byte) message {
	if len(line) > maxOutput {
		line = bytes.ToValidUTF8(line[:maxOutput], nil)
	}
	return message{kind: output, text: string(line)}
}

// line returns the log line of a log message.
func (m *message) line() runner.Line {
	line := runner.Line{Level: m.Level, Source: m.Source, Message: m.items()}
	if m.Time > 0 && m.Time < math.MaxInt64/1e6 {
		line.Time = time.UnixMicro(int64(m.Time * 1000))
	}
	return line
}

// result returns what a step-complete message says of its step.
func (m *message) result() runner.StepResult {
	return runner.StepResult{
		Reason: runner.Reason(m.Reason), ErrorType: m.ErrorType, ErrorMessage: m.ErrorMessage,
		State: m.State, StateTooLarge: m.StateTooLarge, Leaf: *m.Leaf, WebhookResponse: m.WebhookResponse,
		Duration: time.Duration(min(max(m.Duration, 0), 1e12) * float64(time.Millisecond)),
		Memory:   runner.Memory{Job: count(m.Memory.Job), System: count(m.Memory.System)},
		ThreadID: m.ThreadID,
	}
}

// count returns a number of bytes as far as it can be one.
func count(n float64) uint64 { return uint64(min(max(n, 0), 1<<60)) }

// isReason reports whether the text is how a run or a step can end.
func isReason(text string) bool {
	switch runner.Reason(text) {
	case runner.Success, runner.Fail, runner.Crash, runner.Cancel, runner.Kill, runner.Exception:
		return true
	}
	return false
}
