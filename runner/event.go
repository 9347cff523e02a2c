package runner

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/google/uuid"
)

// event is one push of a run's topic. Its methods are called by the outbox's
// sender alone, in the order of the events; so payload sees what the server
// has acknowledged up to then.
type event interface {
	name() string
	payload() any
	// settled tells that the server has acknowledged the event, or refused it.
	settled(refusal error)
}

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

// nullable returns nil for the empty string: JSON null.
func nullable(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

type runStart struct {
	versions Versions
	at       time.Time
}

func (e *runStart) name() string  { return "run:start" }
func (e *runStart) settled(error) {}
func (e *runStart) payload() any {
	return struct {
		Versions  Versions  `json:"versions"`
		Timestamp timestamp `json:"timestamp"`
	}{e.versions, timestamp(e.at)}
}

type stepStart struct {
	step *Step
	at   time.Time
}

func (e *stepStart) name() string  { return "step:start" }
func (e *stepStart) settled(error) {}
func (e *stepStart) payload() any {
	return struct {
		StepID          string    `json:"step_id"`
		JobID           string    `json:"job_id"`
		InputDataclipID string    `json:"input_dataclip_id,omitempty"`
		Timestamp       timestamp `json:"timestamp"`
	}{e.step.id, e.step.jobID, e.step.inputDataclipID(), timestamp(e.at)}
}

// stepComplete carries a step's output under a dataclip id that the worker
// makes. An output over the limit has neither, but says so.
type stepComplete struct {
	step       *Step
	result     StepResult
	at         time.Time
	dataclipID string
	output     string
	tooLarge   bool
}

func newStepComplete(step *Step, result StepResult, at time.Time) *stepComplete {
	e := &stepComplete{step: step, result: result, at: at}
	state := result.State
	if state == nil {
		state = json.RawMessage("{}")
	}
	if len(state) > step.run.Limits.payloadBytes() {
		e.tooLarge = true
		return e
	}
	e.dataclipID = uuid.NewString()
	if !step.run.Limits.WithholdDataclips {
		e.output = string(state)
	}
	return e
}

func (e *stepComplete) name() string { return "step:complete" }

func (e *stepComplete) payload() any {
	p := struct {
		StepID              string          `json:"step_id"`
		JobID               string          `json:"job_id"`
		Mem                 *Memory         `json:"mem,omitempty"`
		Duration            *int64          `json:"duration,omitempty"`
		ThreadID            string          `json:"thread_id,omitempty"`
		Timestamp           *timestamp      `json:"timestamp,omitempty"`
		WebhookResponse     json.RawMessage `json:"webhook_response,omitempty"`
		OutputDataclipID    string          `json:"output_dataclip_id,omitempty"`
		OutputDataclip      string          `json:"output_dataclip,omitempty"`
		OutputDataclipError string          `json:"output_dataclip_error,omitempty"`
		Reason              Reason          `json:"reason"`
		ErrorType           *string         `json:"error_type"`
		ErrorMessage        *string         `json:"error_message"`
	}{
		StepID: e.step.id, JobID: e.step.jobID,
		ThreadID: e.result.ThreadID, Timestamp: stamp(e.at),
		WebhookResponse:  e.result.WebhookResponse,
		OutputDataclipID: e.dataclipID, OutputDataclip: e.output,
		Reason: e.result.Reason,
	}
	if e.tooLarge {
		p.OutputDataclipError = "DATACLIP_TOO_LARGE"
	}
	if !e.at.IsZero() {
		ms := e.result.Duration.Milliseconds()
		p.Duration = &ms
	}
	if e.result.Memory != (Memory{}) {
		p.Mem = &e.result.Memory
	}
	if e.result.Reason != Success {
		p.ErrorType, p.ErrorMessage = nullable(e.result.ErrorType), &e.result.ErrorMessage
	}
	return p
}

func (e *stepComplete) settled(refusal error) {
	if refusal == nil {
		e.step.dataclipID = e.dataclipID
	}
}

type runLog struct {
	run  *Run
	line Line
	step *Step
}

func newRunLog(run *Run, line Line, step *Step) *runLog {
	line = line.withDefaults()
	line.Message = run.scrub.messages(line.Message)
	e := &runLog{run: run, line: line, step: step}
	if e.size() > run.Limits.logPayloadBytes() {
		note := fmt.Sprintf("(this line had %d bytes, over the limit of %s; it was left out)", e.size(), FormatMB(run.Limits.LogPayloadMB))
		e.line.Message = TextLine("", "", note).Message
	}
	return e
}

func (e *runLog) size() int {
	n := 0
	for _, m := range e.line.Message {
		n += len(m)
	}
	return n
}

func (e *runLog) name() string  { return "run:log" }
func (e *runLog) settled(error) {}
func (e *runLog) payload() any {
	p := struct {
		RunID     string            `json:"run_id"`
		Message   []json.RawMessage `json:"message"`
		Source    string            `json:"source"`
		Level     string            `json:"level"`
		Timestamp timestamp         `json:"timestamp"`
		StepID    string            `json:"step_id,omitempty"`
	}{
		RunID: e.run.ID, Message: e.line.Message, Source: e.line.Source, Level: e.line.Level,
		Timestamp: timestamp(e.line.Time),
	}
	if p.Message == nil {
		p.Message = []json.RawMessage{}
	}
	if e.step != nil {
		p.StepID = e.step.id
	}
	return p
}

// runComplete is the last event of a run.
type runComplete struct {
	run     *Run
	failure *Failure // nil for a success
	state   json.RawMessage
	// withDataclip names the output of the only leaf step, if there is one, as
	// the final dataclip.
	withDataclip bool
	at           time.Time
}

func (e *runComplete) name() string  { return "run:complete" }
func (e *runComplete) settled(error) {}
func (e *runComplete) payload() any {
	p := struct {
		Timestamp       *timestamp      `json:"timestamp,omitempty"`
		FinalState      json.RawMessage `json:"final_state,omitempty"`
		FinalDataclipID string          `json:"final_dataclip_id,omitempty"`
		Reason          Reason          `json:"reason"`
		ErrorType       *string         `json:"error_type"`
		ErrorMessage    *string         `json:"error_message"`
	}{Reason: Success}
	if e.failure != nil {
		p.Reason = e.failure.Reason
		p.ErrorType, p.ErrorMessage = nullable(e.failure.Type), &e.failure.Message
	}
	if p.Reason.aborted() {
		return p
	}
	p.Timestamp, p.FinalState = stamp(e.at), e.state
	if leafs := e.run.leafSteps(); e.withDataclip && len(leafs) == 1 {
		p.FinalDataclipID = leafs[0].dataclipID
	}
	return p
}
