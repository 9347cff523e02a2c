package js

import (
	"context"
	"encoding/json"
	"time"

	"github.com/phxworker/phxworker/runner"
)

// step is one step under way.
type step struct {
	*execution
	node   *node
	report *runner.Step
	input  json.RawMessage // the state that the step before left, nil for none

	box    *sandbox
	timers timers

	settled bool
	ending  ending          // how the operations ended, once settled
	crash   *runner.Failure // an error that nobody caught
	final   final           // what the prelude handed over at the end
}

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
	own             *thrown // what the state has for this job in its errors
	unserialisable  bool
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

// handoverName is a global by which the modules of adaptors get at what they
// export, before any code of the job runs.
const handoverName = "__adaptor"

// stateShare is the part of the memory limit that a state may take as JSON.
const stateShare = 0.25

// execute runs the job. An error ends the run from outside the step: a time or
// memory limit, or an error that nobody caught.
func (s *step) execute(ctx context.Context) (outcome, error) {
	limit := uint64(s.run.Limits.MemoryMB * (1 << 20))
	box, err := newSandbox(s.prelude, limit, s.serve)
	if err != nil {
		return outcome{}, &runner.Failure{Reason: runner.Exception, Type: "EngineError", Message: err.Error()}
	}
	s.box = box
	defer box.close()
	release := box.guard(ctx)
	defer release()

	box.vm.SetModuleLoader(s.loadModule, s.resolveModule)
	_, err = box.call("receive", orNull(s.input), orNull(s.node.job.State), orNull(s.run.Credential(s.node.id)))
	if err := s.check(ctx, err); err != nil {
		return outcome{}, err
	}
	if refusal := s.refuseImports(); refusal != nil {
		return s.conclude(ctx, *refusal, limit)
	}
	_, err = box.call("begin", s.jobFacts())
	if err := s.settle(ctx, err); err != nil {
		return outcome{}, err
	}
	return s.conclude(ctx, s.judge(s.ending), limit)
}

// settle runs the VM's event loop until the job's operations have ended.
func (s *step) settle(ctx context.Context, err error) error {
	for {
		if err := s.check(ctx, err); err != nil {
			return err
		}
		more, drainErr := s.box.drain()
		if err = s.check(ctx, drainErr); err != nil {
			return err
		}
		if more {
			continue
		}
		// Nothing that could still handle a rejected promise has been queued.
		if s.box.watch.handOver(rejectionName) {
			var ends any
			if ends, err = s.box.call("unhandled", rejectionName); ends == false {
				s.box.watch.forget(0)
			}
			continue
		}
		if s.settled {
			return nil
		}
		id, waitErr := s.timers.wait(ctx)
		if waitErr != nil {
			return waitErr
		}
		_, err = s.box.call("fire", id)
	}
}

// check says why the run ends, if it does, when a call into the VM has returned.
func (s *step) check(ctx context.Context, err error) error {
	switch {
	case s.crash != nil:
		return s.crash
	case s.box.watch.exhausted:
		return &runner.Failure{Reason: runner.Kill, Type: "OOMError", Message: "Run exceeded maximum memory usage"}
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		// The prelude catches what jobs throw; this is what it cannot catch,
		// such as a stack that is too deep for it.
		return &runner.Failure{Reason: runner.Crash, Type: "ExecutionError", Message: err.Error()}
	}
	return nil
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
	memory := runner.Memory{Job: s.box.watch.peak, System: s.box.watch.peak}

	// Writing the state is not the job's doing and has memory of its own:
	// more than the largest state that may come out needs while it grows.
	s.box.limitMemory(2 * limit)
	_, err = s.box.call("finish", failed, s.node.id, string(removed))
	if s.box.watch.exhausted || float64(len(s.final.state)) > stateShare*float64(limit) {
		return outcome{}, &runner.Failure{
			Reason: runner.Kill, Type: "StateTooLargeError",
			Message: "State exceeds the limit of " + runner.FormatMB(s.run.Limits.MemoryMB*stateShare),
		}
	}
	if err := s.check(ctx, err); err != nil {
		return outcome{}, err
	}
	if s.final.unserialisable {
		return outcome{}, &runner.Failure{Reason: runner.Crash, Type: "SyntaxError", Message: `"undefined" is not valid JSON`}
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

// serve answers the prelude.
func (s *step) serve(operation string, args []any) (any, error) {
	switch operation {
	case "log":
		s.logLine(stringAt(args, 0), stringAt(args, 1), args[2:])
	case "timer":
		s.timers.add(numberAt(args, 0), time.Duration(numberAt(args, 1))*time.Millisecond)
	case "clear":
		s.timers.remove(numberAt(args, 0))
	case "uncaught":
		s.uncaught(readThrown(stringAt(args, 0)), json.RawMessage(stringAt(args, 1)))
	case "stateless":
		s.report.Log(noStateLine(numberAt(args, 0)))
	case "settled":
		s.settled = true
		s.ending = ending{position: numberAt(args, 1), phase: stringAt(args, 2)}
		if facts := stringAt(args, 0); facts != "" {
			s.ending.thrown = readThrown(facts)
		}
	case "state":
		s.final = final{
			state: rawAt(args, 0), webhookResponse: rawAt(args, 2),
			unserialisable: stringAt(args, 1) == "unserialisable",
		}
		if own := stringAt(args, 1); own != "" && !s.final.unserialisable {
			s.final.own = readThrown(own)
		}
	}
	return nil, nil
}

// uncaught ends the run for an error that no code of the job can catch any
// more.
func (s *step) uncaught(t *thrown, logged json.RawMessage) {
	if s.crash != nil || s.settled && s.final.state != nil {
		return
	}
	s.report.Log(runner.TextLine("error", "ADA", "Uncaught exception in worker thread (workflow "+s.run.ID+" )"))
	s.report.Log(runner.Line{Level: "error", Source: "ADA", Message: []json.RawMessage{logged}})
	s.crash = &runner.Failure{Reason: runner.Crash, Type: "ExecutionError", Message: t.text()}
	s.box.vm.Interrupt()
}

// The arguments of the prelude's calls. One that is missing or undefined is
// empty.

func stringAt(args []any, i int) string {
	if i >= len(args) {
		return ""
	}
	text, _ := args[i].(string)
	return text
}

func rawAt(args []any, i int) json.RawMessage {
	if text := stringAt(args, i); text != "" {
		return json.RawMessage(text)
	}
	return nil
}

func numberAt(args []any, i int) int {
	if i >= len(args) {
		return 0
	}
	switch n := args[i].(type) {
	case int:
		return n
	case int32:
		return int(n)
	case int64:
		return int(n)
	case float64:
		return int(n)
	}
	return 0
}

// orNull makes a JSON text of one that may be missing.
func orNull(text json.RawMessage) string {
	if len(text) == 0 {
		return "null"
	}
	return string(text)
}
