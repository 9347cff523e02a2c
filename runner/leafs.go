package runner

import "cmp"

// leafs are the steps of a run that nothing came after. They decide how it ended.
type leafs struct {
	count  int
	latest *Step
	failed map[string]failedLeaf // by job
	kept   int                   // bytes of their messages
}

type failedLeaf struct {
	failure Failure
	nth     int // of all leafs
}

// maxKept bounds the messages that are kept until the run is over, in bytes.
const maxKept = 4 << 20

// add counts a step. Of the steps of one job the last one counts, as with OpenFn's worker, unless one before it was worse than a fail.
func (l *leafs) add(step *Step, result StepResult) {
	l.count++
	l.latest = step
	if before, failed := l.failed[step.jobID]; failed {
		if worse := severity(before.failure.Reason); worse > severity(Fail) && worse >= severity(result.Reason) {
			return
		}
		l.kept -= len(before.failure.Message)
		delete(l.failed, step.jobID)
	}
	if result.Reason == Success {
		return
	}
	failure := Failure{Reason: result.Reason, Type: result.ErrorType, Message: result.ErrorMessage}
	if l.kept+len(failure.Message) > maxKept {
		failure.Message = "(the message was not kept)"
	}
	l.kept += len(failure.Message)
	if l.failed == nil {
		l.failed = make(map[string]failedLeaf)
	}
	l.failed[step.jobID] = failedLeaf{failure, l.count}
}

// worst returns the failure that the run ends with, nil for none: of those that are as bad, that of the first job of the plan. As
// with OpenFn's worker, a fail does not count if a job that an edge leads to was executed, whatever that came after.
func (l *leafs) worst(plan *Plan, executed map[string]bool) *Failure {
	if len(l.failed) == 0 {
		return nil
	}
	followed := make(map[string]bool)
	for i := range plan.Edges {
		if e := &plan.Edges[i]; executed[e.TargetJobID] {
			followed[e.SourceJobID] = true
		}
	}
	place := make(map[string]int, len(plan.Jobs))
	for i := range plan.Jobs {
		place[plan.Jobs[i].ID] = i - len(plan.Jobs) // before those that are not in the plan
	}
	var worst *failedLeaf
	var at int
	for job, leaf := range l.failed {
		if leaf.failure.Reason == Fail && followed[job] {
			continue
		}
		here := cmp.Or(place[job], leaf.nth)
		if worst == nil || cmp.Or(cmp.Compare(severity(worst.failure.Reason), severity(leaf.failure.Reason)), cmp.Compare(here, at)) < 0 {
			worst, at = &leaf, here
		}
	}
	if worst == nil {
		return nil
	}
	return &worst.failure
}
