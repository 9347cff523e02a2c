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

// finalState returns the state as the server takes it: one that is no object is wrapped in
// one, the way later versions of Lightning do it themselves. Earlier ones lose a
// run that ends with 42.
func finalState(state json.RawMessage) json.RawMessage {
	state = storable(bytes.TrimSpace(state))
	if len(state) == 0 {
		return nil
	}
	if state[0] != '{' {
		return append(append([]byte(`{"value":`), state...), '}')
	}
	return state
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

// lastEvent makes the last event of a run. A final state that is over the limit loses its
// data, as with OpenFn's worker, and the run's log says so; what a step left behind is in its
// output, or was told there. One of several leafs is not sent at all, for it has the states of all,
// nor is any where nothing is to be sent. A run without steps has no other result: it has failed then, and
// what would still be over the limit is not sent.
func (r *Run) lastEvent(result Result, failure *Failure) *runComplete {
	state := finalState(result.State)
	if limit := r.Limits.payloadBytes(); len(state) > limit {
		what := fmt.Sprintf("The final state has %d bytes, over the payload limit of %s: ", len(state), FormatMB(r.Limits.PayloadMB))
		smaller := withoutData(state)
		switch {
		case r.Limits.PayloadMB < 0 || len(r.leafSteps()) > 1:
			state, what = nil, what+"it was not sent"
		case smaller != nil && (len(smaller) <= limit || r.hasSteps()):
			state, what = smaller, what+"its data was not sent"
		case r.hasSteps():
			what += "it is sent all the same"
		default:
			state, what = nil, what+"it was not sent"
		}
		if failure == nil && !r.hasSteps() && r.Limits.PayloadMB >= 0 {
			failure = &Failure{Reason: Fail, Type: "FinalStateTooLarge", Message: what}
		} else {
			r.outbox.force(newRunLog(r, warning(what), nil), 0)
		}
	}
	logEnd(r, failure)
	return newRunComplete(r, state, failure)
}
