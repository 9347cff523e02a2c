package runner

import (
	"encoding/json"
	"fmt"
	"slices"
)

type runLog struct {
	run  *Run
	line Line
	step *Step
	note bool // the line was replaced by a note
	// stepless leaves out the step, which the server may not know: its
	// step:start was refused.
	stepless bool
}

func newRunLog(run *Run, line Line, step *Step) *runLog {
	line = line.withDefaults()
	line.Message = run.scrub.messages(line.Message)
	for i, m := range line.Message {
		if clean := storable(m); len(clean) != len(m) {
			line.Message = slices.Clone(line.Message) // it is the engine's
			line.Message[i] = clean
		}
	}
	e := &runLog{run: run, line: line, step: step}
	if e.size() > run.Limits.logPayloadBytes() {
		e.leaveOut("over the limit of " + FormatMB(run.Limits.LogPayloadMB))
	}
	return e
}

// leaveOut replaces the line by a note about it.
func (e *runLog) leaveOut(why string) {
	note := fmt.Sprintf("(this line had %d bytes, %s; it was left out)", e.size(), why)
	e.line.Message = TextLine("", "", note).Message
	e.note = true
	e.run.tally.shortened.Add(1)
}

// lessen takes the step off a line if that is what the server does not take, else it
// replaces the line.
func (e *runLog) lessen(why error) (bool, event) {
	switch {
	case e.note:
		return false, nil
	case isAbout(why, "step_id") && e.step != nil && !e.step.unknown && !e.stepless:
		e.stepless = true
	default:
		e.leaveOut("which the server does not take")
	}
	return true, nil
}

// settled remembers that the step was what the server did not take.
func (e *runLog) settled(refusal error) {
	if refusal == nil && e.stepless {
		e.step.unknown = true
	}
}

// repeatable follows the worker's policy: at least once by default, at most
// once if so configured, for Lightning stores a line that comes twice twice.
func (e *runLog) repeatable() bool { return !e.run.logsAtMostOnce }

func (e *runLog) size() int {
	n := 0
	for _, m := range e.line.Message {
		n += len(m)
	}
	return n
}

func (e *runLog) name() string { return "run:log" }
func (e *runLog) payload() any {
	p := e.entry()
	p.RunID = e.run.ID
	return p
}

// logEntry is one line on the wire. In a batch it goes without the run's id.
type logEntry struct {
	RunID     string            `json:"run_id,omitempty"`
	Message   []json.RawMessage `json:"message"`
	Source    string            `json:"source"`
	Level     string            `json:"level"`
	Timestamp timestamp         `json:"timestamp"`
	StepID    string            `json:"step_id,omitempty"`
}

func (e *runLog) entry() logEntry {
	p := logEntry{
		Message: e.line.Message, Source: e.line.Source, Level: e.line.Level,
		Timestamp: timestamp(e.line.Time),
	}
	if p.Message == nil {
		p.Message = []json.RawMessage{}
	}
	if e.step != nil && !e.step.unknown && !e.stepless {
		p.StepID = e.step.id
	}
	return p
}
