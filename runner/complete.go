package runner

import (
	"bytes"
	"encoding/json"
)

// logEnd writes the last lines of a run's log, as OpenFn's worker has them.
func logEnd(run *Run, failure *Failure) {
	reason := Success
	if failure != nil {
		reason = failure.Reason
	}
	run.outbox.force(newRunLog(run, TextLine("info", "R/T", "Run complete with status: "+string(reason)), nil))
	if failure != nil {
		run.outbox.force(newRunLog(run, TextLine("info", "R/T", failure.Type+": "+failure.Message), nil))
	}
}

// redacted stands for data that is over the payload limit.
var redacted = json.RawMessage(`"[REDACTED]"`)

// finalState returns the state as the server takes it. One over the limit loses
// its data, as with OpenFn's worker. One that is no object is wrapped in one,
// the way later versions of Lightning do it themselves: earlier ones lose a
// run that ends with 42.
func finalState(state json.RawMessage, limits Limits) json.RawMessage {
	state = bytes.TrimSpace(state)
	if len(state) == 0 {
		return nil
	}
	if state[0] != '{' {
		return append(append([]byte(`{"value":`), state...), '}')
	}
	if len(state) <= limits.payloadBytes() {
		return state
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(state, &fields) != nil {
		return nil
	}
	if _, found := fields["data"]; found {
		fields["data"] = redacted
	}
	smaller, err := json.Marshal(fields)
	if err != nil {
		return nil
	}
	return smaller
}
