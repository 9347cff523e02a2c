package runner

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// logEnd writes the last lines of a run's log, as OpenFn's worker has them.
func logEnd(run *Run, failure *Failure) {
	reason := Success
	if failure != nil {
		reason = failure.Reason
	}
	run.outbox.force(newRunLog(run, TextLine("info", "R/T", "Run complete with status: "+string(reason)), nil), 0)
	if failure != nil {
		run.outbox.force(newRunLog(run, TextLine("info", "R/T", failure.Type+": "+failure.Message), nil), 0)
	}
}

// redacted stands for data that is over the payload limit.
var redacted = json.RawMessage(`"[REDACTED]"`)

// finalState returns the state as the server takes it. One that is no object is wrapped
// in one, the way later versions of Lightning do it themselves: earlier ones lose a
// run that ends with 42. One over the limit loses its data, as with OpenFn's worker, or
// is withheld if that does not help; then tooLarge says so.
func finalState(state json.RawMessage, limits Limits) (sent json.RawMessage, tooLarge string) {
	state = bytes.TrimSpace(state)
	if len(state) == 0 {
		return nil, ""
	}
	state = storable(state)
	if state[0] != '{' {
		state = append(append([]byte(`{"value":`), state...), '}')
	}
	limit := limits.payloadBytes()
	if len(state) <= limit {
		return state, ""
	}
	tooLarge = fmt.Sprintf("The final state has %d bytes, over the payload limit of %s: ", len(state), FormatMB(limits.PayloadMB))
	if smaller := withoutData(state); smaller != nil && len(smaller) <= limit {
		return smaller, tooLarge + "its data was not sent"
	}
	return nil, tooLarge + "it was not sent"
}

// withoutData returns the state with its data redacted, nil if it has none.
func withoutData(state json.RawMessage) json.RawMessage {
	var fields map[string]json.RawMessage
	if json.Unmarshal(state, &fields) != nil || fields["data"] == nil {
		return nil
	}
	fields["data"] = redacted
	smaller, err := json.Marshal(fields)
	if err != nil {
		return nil
	}
	return smaller
}

// lastEvent makes the last event of a run. A final state that is over the limit must not
// pass for sent: the run's log says so, and a run without steps, of which it would
// have been the only result, has failed.
func (r *Run) lastEvent(result Result, failure *Failure) *runComplete {
	state, tooLarge := finalState(result.State, r.Limits)
	switch {
	case tooLarge == "":
	case failure == nil && !r.hasSteps():
		failure = &Failure{Reason: Fail, Type: "FinalStateTooLarge", Message: tooLarge}
	default:
		r.outbox.force(newRunLog(r, warning(tooLarge), nil), 0)
	}
	logEnd(r, failure)
	return newRunComplete(r, state, failure)
}
