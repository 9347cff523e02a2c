package delivery

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/phxworker/phxworker/channel"
)

// Line is one line of a run's log.
type Line struct {
	// Level is success, always, info, warn, error or debug.
	Level string
	// Source names who wrote it, in at most 8 characters: JOB for the console of a job, ADA for that of an
	// adaptor, R/T and RTE for the engine.
	Source string
	// Message holds a JSON value for each argument that was logged.
	Message []json.RawMessage
	// Time defaults to now.
	Time time.Time
}

// TextLine returns a line of one string.
func TextLine(level, source, text string) Line {
	message, _ := json.Marshal(text) // a string cannot fail to marshal
	return Line{Level: level, Source: source, Message: []json.RawMessage{message}}
}

// Warning is a line by which the worker tells the people who read the run's log of what it had to do.
func Warning(text string) Line { return TextLine("warn", "R/T", text) }

const maxSource = 8 // what Lightning's log lines have room for

// withDefaults returns a copy of l that Lightning will accept.
func (l Line) withDefaults() Line {
	if l.Time.IsZero() {
		l.Time = time.Now()
	}
	if !slices.Contains([]string{"success", "always", "info", "warn", "error", "debug"}, l.Level) {
		l.Level = "info"
	}
	l.Source = Cut(storableText(l.Source), maxSource, "")
	return l
}

func (l Line) size() (n int) {
	for _, m := range l.Message {
		n += len(m)
	}
	return n
}

// logLine is one line on its way.
type logLine struct {
	sending

	box  *Outbox
	line Line
	step *Step
	note bool // the line was replaced by a note
}

// Log reports a line; a nil step is for a line that belongs to none. Secrets of the run are replaced, and a line over
// the limit by a note about it.
func (o *Outbox) Log(l Line, step *Step) {
	e := o.newLine(l, step)
	o.put(e, e.line.size())
}

func (o *Outbox) newLine(l Line, step *Step) *logLine {
	l = l.withDefaults()
	messages := make([]json.RawMessage, len(l.Message)) // the line's own are the engine's
	for i, m := range l.Message {
		messages[i] = storable(mapStrings(m, o.Scrub))
	}
	l.Message = messages
	e := &logLine{sending: sending{event: lineEvent}, box: o, line: l, step: step}
	if limit := o.limits.Load().LogPayloadMB; Exceeds(l.size(), limit) {
		e.leaveOut("over the limit of " + FormatMB(limit))
	}
	return e
}

func (e *logLine) leaveOut(why string) {
	e.line.Message = TextLine("", "", fmt.Sprintf("(this line had %d bytes, %s; it was left out)", e.line.size(), why)).Message
	e.note = true
}

// lessen takes the step off a line if that is what the server does not take, else it replaces the line.
func (e *logLine) lessen(why error) (bool, event) {
	switch {
	case e.note:
		return false, nil
	case isAbout(why, "step_id") && e.namesStep():
		e.step.known = false // for the lines that follow, too
	default:
		e.leaveOut("which the server does not take")
	}
	return true, nil
}

// answered counts a note that the server has.
func (e *logLine) answered(refusal error) {
	if refusal == nil && e.note {
		e.box.delivery.count(func(s *Stats) { s.LogsShortened++ })
	}
}

func (e *logLine) namesStep() bool { return e.step != nil && e.step.known }

func (e *logLine) payload() any {
	p := e.entry()
	p.RunID = e.box.run.ID
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

func (e *logLine) entry() logEntry {
	p := logEntry{Message: e.line.Message, Source: e.line.Source, Level: e.line.Level, Timestamp: timestamp(e.line.Time)}
	if e.namesStep() {
		p.StepID = e.step.id
	}
	return p
}

// batch is some lines in one event. They stay in the outbox until it is delivered.
type batch struct {
	sending

	box   *Outbox
	lines []event
}

func (e *batch) payload() any {
	p := struct {
		RunID string     `json:"run_id"`
		Logs  []logEntry `json:"logs"`
	}{e.box.run.ID, make([]logEntry, len(e.lines))}
	for i, line := range e.lines {
		p.Logs[i] = line.(*logLine).entry()
	}
	return p
}

// batchBytes bounds the lines of one batch, well under the limit of a frame even when escaping makes them longer.
const batchBytes = 4 << 20

func (o *Outbox) isBatched(e event) bool {
	return o.delivery.cfg.BatchLogs.Limit > 1 && e.name() == lineEvent && !o.delivery.unbatched.Load()
}

// send delivers the events at the head: one, or a batch. A batch that is refused, for one bad line in it or for whatever
// reason, is delivered line by line.
func (o *Outbox) send(ctx context.Context, events []event) error {
	if len(events) == 1 {
		return o.sendOne(ctx, events[0])
	}
	before := o.epoch
	refusal, err := o.deliver(ctx, &batch{sending{event: batchEvent}, o, events})
	if err != nil {
		return err
	}
	if refusal == nil {
		o.delivery.batched.Store(true)
	}
	if refusal == nil || errors.Is(refusal, channel.ErrOutcomeUnknown) && o.delivery.cfg.LogsAtMostOnce {
		o.conclude(len(events), refusal)
	} else {
		for _, line := range events {
			if err := o.sendOne(ctx, line); err != nil {
				return err
			}
		}
	}
	// A server that takes nothing at all just now says nothing about batches: then the lines crash as well, and
	// their topic was joined more than once.
	if errors.Is(refusal, channel.ErrCrashed) && !o.delivery.batched.Load() && o.epoch <= before+1 && o.delivery.unbatched.CompareAndSwap(false, true) {
		o.log.Warn("the server crashed over run:batch_logs, and not over run:log; lines go one by one from now on", "error", refusal)
	}
	return nil
}
