package runner

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/phxworker/phxworker/runner/delivery"
)

// complete reports the end of a run, and returns how it failed in the end. Its last lines are those of OpenFn's worker.
func (r *Run) complete(result Result, failure *Failure) *Failure {
	end := delivery.End{Reason: Success}
	r.outbox.TakeAll()
	if failure != nil {
		reasoned := *failure // which may be a variable of the engine's
		reasoned.Reason = r.reason(failure.Reason, Fail)
		failure = &reasoned
		r.closeOpen(failure)
	}
	if failure == nil || !aborted(failure.Reason) {
		end.At = time.Now()
		end.State, failure = r.finalState(result.State, failure)
		r.mu.Lock()
		if r.leafs.count == 1 {
			end.Output = r.leafs.latest.told
		}
		r.mu.Unlock()
	}
	if failure != nil {
		end.Reason, end.ErrorType, end.ErrorMessage = failure.Reason, failure.Type, failure.Message
	}
	r.Log(TextLine("info", "R/T", "Run complete with status: "+string(end.Reason)))
	if failure != nil {
		r.Log(TextLine("info", "R/T", failure.Type+": "+cmp.Or(failure.Message, "unknown")))
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
	hasSteps, leafs := r.steps > 0, r.leafs.count
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

// explain logs what a failure of the plan, in the words of OpenFn's runtime, leaves out: which edge it is about, and
// between which jobs, by their names.
func (r *Run) explain(failure *Failure) {
	if failure == nil {
		return
	}
	for _, line := range r.Plan.explain(failure, r.openJobs()) {
		r.Log(TextLine("warn", "R/T", line))
	}
}

func (r *Run) openJobs() (ids []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, step := range r.open {
		ids = append(ids, step.jobID)
	}
	return ids
}

// maxExplained bounds the lines: a plan may have very many edges.
const maxExplained = 10

// explain tells of the edges, and of the start, that are about nodes which the plan does not have; of the edge that a
// message names by the ids of its nodes, as it closes a circle or its condition is no JavaScript; and of the conditions
// that were looked at when one of them failed behind an open job.
func (p *Plan) explain(failure *Failure, open []string) (lines []string) {
	labels := p.labels()
	broken := failure.Type == "ValidationError"
	circle, isCircle := strings.CutPrefix(failure.Message, "Circular dependency: ")
	uncompiled, isCondition := strings.CutPrefix(failure.Message, "Failed to compile edge condition ")
	named := broken || failure.Type == "Error"
	if start := p.Start(); broken && labels[start] == "" {
		lines = append(lines, fmt.Sprintf("The run starts with %.100q, which the plan does not have", start))
	}
	for i := range p.Edges {
		e := &p.Edges[i]
		id, to := e.Source(), labels[e.TargetJobID]
		from, condition := labels[id], strings.TrimSpace(e.Condition)
		if !e.IsEnabled() || len(lines) >= maxExplained {
			continue
		}
		switch {
		case broken && from != "" && to == "":
			lines = append(lines, fmt.Sprintf("The edge from %s leads to %.100q, which is no job of the plan", from, e.TargetJobID))
		case named && isCircle && circle == id+" <-> "+e.TargetJobID:
			return append(lines, fmt.Sprintf("The edge from %s to %s closes a circle", from, to))
		case named && isCondition && strings.HasPrefix(uncompiled, id+"->"+e.TargetJobID+" ("): // of several, it is not known which
			lines = append(lines, fmt.Sprintf("The condition on the edge from %s to %s was compiled: %.200s", from, to, condition))
		case failure.Type == "EdgeConditionError" && slices.Contains(open, id) && !fixed[condition]:
			lines = append(lines, fmt.Sprintf("The condition on the edge from %s to %s was looked at: %.200s", from, to, condition))
		}
	}
	return lines
}

// fixed are the conditions that are no JavaScript.
var fixed = map[string]bool{"": true, "always": true, "on_job_success": true, "on_job_failure": true, "on_upstream_success": true, "on_upstream_fail": true}

// labels returns what people know the nodes by, with their quotes.
func (p *Plan) labels() map[string]string {
	labels := make(map[string]string, len(p.Jobs)+len(p.Triggers))
	for i := range p.Triggers {
		labels[p.Triggers[i].ID] = fmt.Sprintf("the trigger %.100q", p.Triggers[i].ID)
	}
	for i := range p.Jobs {
		labels[p.Jobs[i].ID] = fmt.Sprintf("%.100q", p.Jobs[i].Label())
	}
	return labels
}
