package runner

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/phxworker/phxworker/channel"
)

// runComplete is the last event of a run. A run whose run:complete is not taken
// is lost, so it can be offered with less and less in it: without the final
// state, then without the final dataclip, with nothing but the reason.
type runComplete struct {
	plain

	run     *Run
	failure *Failure // nil for a success
	state   json.RawMessage
	// withDataclip names the output of the only leaf step, if there is one, as
	// the final dataclip.
	withDataclip bool
	at           time.Time

	refusal error // set when the server took it in no form
}

func newRunComplete(run *Run, result Result, failure *Failure) *runComplete {
	return &runComplete{
		run: run, failure: failure, at: time.Now(),
		state: finalState(result.State, run.Limits), withDataclip: true,
	}
}

func (e *runComplete) name() string { return "run:complete" }

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
		p.ErrorType, p.ErrorMessage = errorType(e.failure.Type), errorMessage(e.failure.Message)
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

func (e *runComplete) lessen() bool {
	switch {
	case e.state != nil:
		e.state = nil
	case e.withDataclip:
		e.withDataclip = false
	default:
		return false
	}
	return true
}

// settled takes a run that the server has as ended already for reported: there
// is nothing left to tell.
func (e *runComplete) settled(refusal error) {
	var refused *channel.RefusedError
	if errors.As(refusal, &refused) && thereAlready(refused) {
		return
	}
	if refusal != nil {
		e.refusal = fmt.Errorf("the server takes run:complete in no form: %w", refusal)
	}
}
