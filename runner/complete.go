package runner

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/phxworker/phxworker/channel"
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

// complete sends the last event of a run. A server that does not take it, be it
// for the size of the final state, is offered less: without the final state,
// then with nothing but the reason. A run that is not completed is lost.
func complete(ctx context.Context, box *outbox, run *Run, result Result, failure *Failure) error {
	full := runComplete{
		run: run, failure: failure, at: time.Now(),
		state: finalState(result.State, run.Limits), withDataclip: true,
	}
	stateless := full
	stateless.state = nil
	minimal := stateless
	minimal.withDataclip = false

	var refusal error
	for _, e := range []*runComplete{&full, &stateless, &minimal} {
		var err error
		if refusal, err = box.deliver(ctx, e); err != nil {
			return err
		}
		if refusal == nil || alreadyComplete(refusal) {
			return nil
		}
	}
	return fmt.Errorf("the server refuses every form of run:complete: %w", refusal)
}

// alreadyComplete reports whether the server refused a run:complete for the
// state that the run is in: {"state": ["already in completed state"]}.
func alreadyComplete(refusal error) bool {
	var refused *channel.RefusedError
	if !errors.As(refusal, &refused) {
		return false
	}
	var fields, nested map[string]json.RawMessage
	if json.Unmarshal(refused.Response, &fields) != nil {
		return false
	}
	if json.Unmarshal(fields["errors"], &nested) == nil {
		fields = nested
	}
	_, found := fields["state"]
	return found
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
