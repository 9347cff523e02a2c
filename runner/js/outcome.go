package js

import (
	"context"
	"encoding/json"
	"strconv"
	"time"

	"github.com/phxworker/phxworker/runner"
)

// ending is how a job's operations ended.
type ending struct {
	thrown   *thrown // nil when they all returned
	position int     // the operation last begun, from 0; -1 before the first
	phase    string  // "globals", "load" or "operation"
}

// final is a step's state as the prelude hands it over.
type final struct {
	state           json.RawMessage // nil for none
	webhookResponse json.RawMessage
	own             *thrown         // what the state has for this job in its errors
	problem         *runner.Failure // that keeps it from being a state
}

// tooLargeFailure says which limit the state was over: where it does not fit into the memory, that
// is the lesser one.
func tooLargeFailure(limits runner.Limits, stateMB float64) *runner.Failure {
	if stateMB == 0 || stateMB > limits.MemoryMB {
		stateMB = limits.MemoryMB
	}
	return &runner.Failure{Reason: runner.Kill, Type: "StateTooLargeError", Message: "State exceeds the limit of " + runner.FormatMB(stateMB)}
}

// outcome is how a step ended that ran to its end, well or not.
type outcome struct {
	reason            runner.Reason
	stepType, message string
	failure           *runner.Failure // when the run ends with the step
	state             json.RawMessage
	webhookResponse   json.RawMessage
	failed            bool // the state has an error of this job
	memory            runner.Memory
	verdict           verdict
}

// conclude takes over the state that the step leaves behind.
func (s *step) conclude(ctx context.Context, verdict verdict, limit uint64) (outcome, error) {
	failed := ""
	if verdict.reason != runner.Success {
		failed = string(verdict.entry)
	}
	removed, err := json.Marshal(s.engine.cfg.StatePropsToRemove)
	if err != nil {
		return outcome{}, err
	}
	memory := runner.Memory{Job: s.box.vm.Peak(), System: s.box.vm.Peak()}

	// Writing the state is not the job's doing and has memory of its own:
	// more than the largest state that may come out needs while it grows.
	s.box.limitMemory(2 * limit)
	_, err = s.box.call("finish", failed, s.node.id, string(removed))
	if mb := s.run.Limits.StateLimitMB(); s.box.vm.Exhausted() || mb > 0 && float64(len(s.final.state)) > mb*(1<<20) {
		failure := tooLargeFailure(s.run.Limits, mb)
		logEnd(s.report, s.node.job, verdict, time.Since(s.began))
		s.report.Log(lineOf("R/T", "error", []any{`"Critical error processing state: "`, strconv.Quote(failure.Message)}))
		return outcome{}, failure
	}
	if err := s.check(ctx, err); err != nil {
		return outcome{}, err
	}
	if s.final.problem != nil {
		logEnd(s.report, s.node.job, verdict, time.Since(s.began))
		return outcome{}, s.final.problem
	}
	out := outcome{
		reason: verdict.reason, stepType: verdict.stepType, message: verdict.message, failure: verdict.failure,
		state: s.final.state, webhookResponse: s.final.webhookResponse,
		failed: s.final.own != nil, memory: memory, verdict: verdict,
	}
	if own := s.final.own; own != nil && out.reason == runner.Success {
		// The job says so itself, or was handed such a state.
		out.reason, out.stepType, out.message = runner.Fail, own.Name, own.Text
	}
	return out, nil
}
