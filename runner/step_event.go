package runner

import (
	"encoding/json"
	"time"

	"github.com/google/uuid"

	"github.com/phxworker/phxworker/channel/frame"
)

// stepComplete carries a step's output under a dataclip id that the worker
// makes. An output over the limit has neither, but says so.
type stepComplete struct {
	plain

	step       *Step
	result     StepResult
	at         time.Time
	dataclipID string
	output     string
	size       int // of the output in bytes, 0 if it is not known
	tooLarge   bool
}

func newStepComplete(step *Step, result StepResult, at time.Time) *stepComplete {
	state := storable(frame.Portable(result.State)) // it is sent as a string, which the server decodes as well
	if len(state) == 0 {
		state = json.RawMessage("{}")
	}
	result.State = nil // it is large, and not needed any more
	result.WebhookResponse = storable(result.WebhookResponse)
	e := &stepComplete{step: step, result: result, at: at}
	if !result.StateTooLarge {
		e.size = len(state)
	}
	if result.StateTooLarge || len(state) > step.run.Limits.payloadBytes() {
		e.withhold()
		return e
	}
	e.dataclipID = uuid.NewString()
	if !step.run.Limits.WithholdDataclips {
		e.output = string(state)
	}
	return e
}

// withhold has the event go without the output, and say so.
func (e *stepComplete) withhold() { e.tooLarge, e.dataclipID, e.output = true, "", "" }

func (e *stepComplete) name() string { return "step:complete" }

// lessen leaves the output out, or the webhook's response, which may be anything; the
// latter first if it is what a refusal names. An output may be over the limit of a frame though
// it is under that of a payload: escaping makes it longer.
func (e *stepComplete) lessen(why error) (bool, event) {
	run := e.step.run
	switch webhook := e.webhookResponse(); {
	case webhook != nil && (e.tooLarge || isAbout(why, "webhook_response")):
		e.result.WebhookResponse = nil
		run.webhook.response = nil
		return true, newRunLog(run, warning("The response to the webhook was left out: "+whyLess(why)), e.step)
	case !e.tooLarge:
		e.withhold()
		return true, newRunLog(run, warning("The output of the step was left out: "+whyLess(why)), e.step)
	}
	return false, nil
}

func (e *stepComplete) webhookResponse() json.RawMessage {
	return e.step.run.webhook.toSend(e.result.WebhookResponse, e.step.run.outbox.epoch)
}

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
		OutputDataclip      any             `json:"output_dataclip,omitempty"`
		DataclipSizeMB      string          `json:"dataclip_size_mb,omitempty"`
		OutputDataclipError string          `json:"output_dataclip_error,omitempty"`
		Reason              Reason          `json:"reason"`
		ErrorType           *string         `json:"error_type"`
		ErrorMessage        *string         `json:"error_message"`
	}{
		StepID: e.step.id, JobID: e.step.jobID,
		ThreadID: cut(storableText(e.result.ThreadID), maxName), Timestamp: stamp(e.at),
		WebhookResponse:  e.webhookResponse(),
		OutputDataclipID: e.dataclipID, OutputDataclip: outputDataclip(e.output, e.step.run.nativeDataclips), DataclipSizeMB: sizeMB(e.size),
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
		p.ErrorType, p.ErrorMessage = errorType(e.result.ErrorType), errorMessage(e.result.ErrorMessage)
	}
	return p
}

func (e *stepComplete) settled(refusal error) {
	if refusal == nil {
		e.step.dataclipID = e.dataclipID
		if box := e.step.run.outbox; !box.duplicate { // else it was told under a join that is gone
			e.step.run.webhook.sent(box.epoch)
		}
	}
}

// webhook is the response that a job wants the caller of its webhook to get.
// The server keeps it with the join, so it is told again after a rejoin. It
// belongs to the outbox's sender.
type webhook struct {
	response json.RawMessage
	epoch    int // of the join that has it; 0 for none
}

// toSend returns what a step:complete is to carry: what its own step asked for,
// or what an earlier one did under a join that is gone.
func (w *webhook) toSend(own json.RawMessage, epoch int) json.RawMessage {
	if own != nil {
		w.response, w.epoch = own, 0
	}
	if w.epoch == epoch {
		return own
	}
	return w.response
}

func (w *webhook) sent(epoch int) {
	if w.response != nil {
		w.epoch = epoch
	}
}
