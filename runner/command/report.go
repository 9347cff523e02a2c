package command

import (
	"fmt"

	"github.com/phxworker/phxworker/runner"
)

// take reports a message. It tells whether the run is over by it, and how.
func (t *talk) take(m *message) (over bool, result runner.Result, err error) {
	var failure *runner.Failure
	switch m.kind {
	case output:
		t.print(m.text)
	case logLine:
		failure = t.log(m)
	case stepStart:
		failure = t.startStep(m)
	case stepComplete:
		failure = t.completeStep(m)
	case end:
		return t.end(m)
	case tooLong:
		failure = tooLongFailure(int(t.proc.maxLine.Load()))
	case malformed:
		failure = protocolFailure("%s", m.text)
	case ready:
		failure = protocolFailure("it sent ready a second time")
	}
	if failure != nil {
		return true, runner.Result{}, failure
	}
	return false, runner.Result{}, nil
}

// maxPrinted is how much a process may print during a run, in bytes, with
// lineCost for each line.
const (
	maxPrinted = 1 << 20
	lineCost   = 100
)

// print logs a line that is no message.
func (t *talk) print(text string) {
	if text == "" || t.printed > maxPrinted {
		return
	}
	t.printed += len(text) + lineCost
	if t.printed > maxPrinted {
		t.run.Log(runner.TextLine("warn", "OUT", fmt.Sprintf("(over %d bytes were printed; the rest is left out)", maxPrinted)))
		return
	}
	t.run.Log(runner.TextLine("info", "OUT", text))
}

func (t *talk) log(m *message) *runner.Failure {
	if m.Step == "" {
		t.run.Log(m.line())
		return nil
	}
	step := t.steps[m.Step]
	if step == nil {
		return protocolFailure("it logged for the step %q, which it has not started", m.Step)
	}
	step.Log(m.line())
	return nil
}

func (t *talk) startStep(m *message) *runner.Failure {
	var from *runner.Step
	switch {
	case m.Step == "":
		return protocolFailure(`a step-start has no "step"`)
	case t.steps[m.Step] != nil:
		return protocolFailure("it started the step %q twice", m.Step)
	case !t.hasJob(m.Job):
		return protocolFailure("it started a step of the job %q, which the plan does not have", m.Job)
	case m.From != "":
		from = t.steps[m.From]
		if from == nil || t.open[m.From] {
			return protocolFailure("the step %q comes from the step %q, which is not complete", m.Step, m.From)
		}
	}
	t.steps[m.Step], t.open[m.Step] = t.run.StartStep(m.Job, from), true
	return nil
}

func (t *talk) hasJob(id string) bool {
	for i := range t.run.Plan.Jobs {
		if t.run.Plan.Jobs[i].ID == id {
			return true
		}
	}
	return false
}

func (t *talk) completeStep(m *message) *runner.Failure {
	switch {
	case t.steps[m.Step] == nil:
		return protocolFailure("it completed the step %q, which it has not started", m.Step)
	case !t.open[m.Step]:
		return protocolFailure("it completed the step %q twice", m.Step)
	case !isReason(m.Reason):
		return protocolFailure("it completed the step %q with the reason %q", m.Step, m.Reason)
	case m.Leaf == nil:
		return protocolFailure(`the step-complete of the step %q does not say whether it is a leaf`, m.Step)
	}
	delete(t.open, m.Step)
	t.steps[m.Step].Complete(m.result())
	return nil
}

func (t *talk) end(m *message) (over bool, result runner.Result, err error) {
	if m.Reason != "" && !isReason(m.Reason) {
		return true, result, protocolFailure("it ended the run with the reason %q", m.Reason)
	}
	t.clean = !m.more && !m.Last
	result.State = m.State
	if m.Reason == "" || m.Reason == string(runner.Success) {
		return true, result, nil
	}
	return true, result, &runner.Failure{Reason: runner.Reason(m.Reason), Type: m.ErrorType, Message: m.ErrorMessage}
}
