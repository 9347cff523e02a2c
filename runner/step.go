package runner

import (
	"encoding/json"
	"time"

	"github.com/google/uuid"
)

// Step is one execution of a job. See [Run] for what its methods share.
type Step struct {
	run   *Run
	id    string
	jobID string
	from  *Step

	result StepResult // guarded by run.mu, and final once set

	// dataclipID belongs to the outbox's sender. It is the id of the step's output once the server has
	// acknowledged it, and empty before: an id that the server does not know
	// would make it refuse every event that mentions it.
	dataclipID string
	// unknown tells that the server has not taken the step's step:start; the
	// sender's own as well.
	unknown bool
}

// StepResult is how a step ended.
type StepResult struct {
	// Reason defaults to Success. The error fields are only sent with others.
	Reason       Reason
	ErrorType    string
	ErrorMessage string
	// State is the JSON that the step left behind, its output dataclip. Nil
	// stands for nothing at all, which the server gets as {}.
	State json.RawMessage
	// StateTooLarge says that the engine has left State out, for it is over the
	// limit of a payload.
	StateTooLarge bool
	// Leaf tells that no step comes after this one. The leaf steps decide
	// the reason of the run.
	Leaf bool
	// WebhookResponse, an object {status, body}, is what the caller of a
	// waiting webhook is to be answered.
	WebhookResponse json.RawMessage
	// Duration and Memory are left out of the report when zero.
	Duration time.Duration
	Memory   Memory
	// ThreadID names whatever executed the step.
	ThreadID string
}

// Memory is what a step used, in bytes.
type Memory struct {
	Job    uint64 `json:"job"`
	System uint64 `json:"system"`
}

func newStep(run *Run, jobID string, from *Step) *Step {
	return &Step{run: run, id: uuid.NewString(), jobID: jobID, from: from}
}

// JobID returns the id of the job that the step executes.
func (s *Step) JobID() string { return s.jobID }

// Log sends a line that belongs to the step.
func (s *Step) Log(line Line) { s.run.logLine(line, s) }

// Complete reports how the step ended. Only the first call counts.
func (s *Step) Complete(result StepResult) {
	if result.Reason == "" {
		result.Reason = Success
	}
	if !s.run.completed(s, result) {
		return
	}
	complete := newStepComplete(s, result, time.Now())
	if complete.tooLarge {
		s.Log(warning("The output of the step is over the payload limit of " + FormatMB(s.run.Limits.PayloadMB) + ": it was not sent"))
	}
	s.run.report(complete, len(complete.output)+len(complete.result.WebhookResponse)+len(result.ErrorMessage))
}

// abort completes the step from outside, without what the engine would know.
// It goes past the bound of the outbox, for by now nobody may be there to wait.
func (s *Step) abort(failure *Failure) {
	result := StepResult{Reason: failure.Reason, ErrorType: failure.Type, ErrorMessage: failure.Message, Leaf: true}
	s.run.outbox.force(newStepComplete(s, result, time.Time{}), 0)
}

// inputDataclipID returns the id of the dataclip that the step was given, empty
// when it had none or the server does not know it. Only the sender calls it.
func (s *Step) inputDataclipID() string {
	if s.from != nil {
		return s.from.dataclipID
	}
	return s.run.Plan.DataclipID
}
