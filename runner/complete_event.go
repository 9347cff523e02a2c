package runner

import (
	"encoding/json"
	"fmt"
	"time"
)

// runComplete is the last event of a run. A run whose run:complete is not taken
// is lost, so it can be offered with less and less in it: without the final
// state, then without the final dataclip, with nothing but the reason. If the dataclip
// is what a refusal names, it goes first: the state may be the last copy of the output.
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

func newRunComplete(run *Run, state json.RawMessage, failure *Failure) *runComplete {
	return &runComplete{run: run, failure: failure, at: time.Now(), state: state, withDataclip: true}
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
	p.Timestamp, p.FinalState, p.FinalDataclipID = stamp(e.at), e.state, e.dataclipID()
	return p
}

// dataclipID is that of the output of the only leaf step, if there is one.
func (e *runComplete) dataclipID() string {
	if leafs := e.run.leafSteps(); e.withDataclip && len(leafs) == 1 {
		return leafs[0].dataclipID
	}
	return ""
}

func (e *runComplete) lessen(why error) (bool, event) {
	switch {
	case e.dataclipID() != "" && (e.state == nil || isAbout(why, "final_dataclip_id")):
		e.withDataclip = false
		return true, nil
	case e.state != nil:
		e.state = nil
		return true, newRunLog(e.run, warning("The final state was left out: "+whyLess(why)), nil)
	}
	return false, nil
}

func (e *runComplete) settled(refusal error) {
	switch {
	case refusal == nil:
	case isDuplicate(e.name(), refusalOf(refusal)):
		e.refusal = fmt.Errorf("the server has another end of the run already: %w", refusal)
	default:
		e.refusal = fmt.Errorf("the server takes run:complete in no form: %w", refusal)
	}
}
