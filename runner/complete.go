package runner

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/phxworker/phxworker/runner/delivery"
)

// complete reports the end of a run, and returns how it failed in the end. Its last lines are those of OpenFn's
// worker.
func (r *Run) complete(result Result, failure *Failure) *Failure {
	end := delivery.End{Reason: Success}
	r.outbox.TakeAll()
	if failure != nil {
		reasoned := *failure // which may be a variable of the engine's
		reasoned.Reason = r.reason(failure.Reason, Fail)
		failure = &reasoned
	}
	if failure != nil && r.Versions != nil {
		r.closeOpen(failure)
	}
	if failure == nil || !aborted(failure.Reason) {
		end.At = time.Now()
		end.State, failure = r.finalState(result.State, failure)
		r.mu.Lock()
		if r.leafs == 1 {
			end.Output = r.leaf.told
		}
		r.mu.Unlock()
	}
	if failure != nil {
		end.Reason, end.ErrorType, end.ErrorMessage = failure.Reason, failure.Type, failure.Message
	}
	r.Log(TextLine("info", "R/T", "Run complete with status: "+string(end.Reason)))
	if failure != nil {
		r.Log(TextLine("info", "R/T", failure.Type+": "+failure.Message))
	}
	r.outbox.Complete(end)
	return failure
}

// finalState returns what is sent of a final state. One that is over the limit loses its data, as with OpenFn's
// worker, and the run's log says so; what a step left behind is in its output, or was told there. One of several leafs
// is not sent at all, for it has the states of all, nor is any where nothing is to be sent. A run without steps has no
// other result: it has failed then, and what would still be over the limit is not sent.
func (r *Run) finalState(state json.RawMessage, failure *Failure) (json.RawMessage, *Failure) {
	if !delivery.Exceeds(len(state), r.Limits.PayloadMB) {
		return state, failure
	}
	r.mu.Lock()
	hasSteps, leafs := r.steps > 0, r.leafs
	r.mu.Unlock()
	what := fmt.Sprintf("The final state has %d bytes, over the payload limit of %s: ", len(state), FormatMB(r.Limits.PayloadMB))
	smaller := withoutData(state)
	switch {
	case r.Limits.PayloadMB < 0, leafs > 1:
		state, what = nil, what+"it was not sent"
	case smaller != nil && (hasSteps || !delivery.Exceeds(len(smaller), r.Limits.PayloadMB)):
		state, what = smaller, what+"its data was not sent"
	case hasSteps:
		what += "it is sent all the same"
	default:
		state, what = nil, what+"it was not sent"
	}
	if failure == nil && !hasSteps && r.Limits.PayloadMB >= 0 {
		return state, &Failure{Reason: Fail, Type: "FinalStateTooLarge", Message: what}
	}
	r.Log(delivery.Warning(what))
	return state, failure
}

// withoutData returns the state with its data redacted, nil if it has none.
func withoutData(state json.RawMessage) json.RawMessage {
	var fields map[string]json.RawMessage
	if json.Unmarshal(state, &fields) != nil || fields["data"] == nil {
		return nil
	}
	fields["data"] = json.RawMessage(`"[REDACTED]"`)
	smaller, err := json.Marshal(fields)
	if err != nil {
		return nil
	}
	return smaller
}
