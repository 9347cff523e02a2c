package js

import (
	"context"
	"encoding/json"
	"regexp"
	"sync"
	"time"

	"github.com/phxworker/phxworker/runner"
	"github.com/phxworker/phxworker/runner/js/chunk"
)

// step is one step under way.
type step struct {
	*execution
	node   *node
	report *runner.Step
	input  json.RawMessage // the state that the step before left, nil for none
	began  time.Time

	box      *sandbox
	timers   timers
	resolved map[string]int // how often the job was given a module

	answers    chan answer // of exchanges; nil before the first, as the next ones
	refused    []answer    // to exchanges that were not begun
	client     *chunk.Client
	network    context.Context // of exchanges, which outlive the calls that begin them
	endNetwork context.CancelFunc
	under      sync.WaitGroup // exchanges that are under way

	settled bool
	ending  ending          // how the operations ended, once settled
	crash   *runner.Failure // an error that nobody caught
	final   final           // what the prelude handed over at the end
}

// execute runs the job. An error ends the run from outside the step: a time or
// memory limit, or an error that nobody caught.
func (s *step) execute(ctx context.Context) (outcome, error) {
	if s.late != nil {
		s.crashed(s.late.thrown, s.late.logged)
		return outcome{}, s.crash
	}
	limit := uint64(s.run.Limits.MemoryMB * (1 << 20))
	box, err := s.stock.take(limit, s.serve)
	if err != nil {
		return outcome{}, &runner.Failure{Reason: runner.Exception, Type: "EngineError", Message: err.Error()}
	}
	s.box = box
	box.chunks = s.chunks
	defer s.endExchanges()
	defer s.stock.discard(box)
	release := box.guard(ctx)
	defer release()

	box.vm.Modules, box.vm.Resolve = s.loadModule, s.resolveImport
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
		more, drainErr := s.box.vm.Drain(mostPending)
		if err = s.check(ctx, drainErr); err != nil {
			return err
		}
		if more {
			continue
		}
		// Nothing that could still handle a rejected promise has been queued.
		if reason, found := s.box.vm.TakeRejection(); found {
			_, err = s.box.call("unhandled", reason)
			s.box.vm.Free(reason)
			continue
		}
		if s.settled {
			return nil
		}
		if came := s.takeRefused(); came != nil {
			_, err = s.box.call("answered", came.id, came.text)
			continue
		}
		id, came, waitErr := s.timers.wait(ctx, s.answers)
		switch {
		case waitErr != nil:
			return waitErr
		case came != nil:
			_, err = s.box.call("answered", came.id, came.text)
		default:
			_, err = s.box.call("fire", id)
		}
	}
}

// check says why the run ends, if it does, when a call into the VM has returned.
func (s *step) check(ctx context.Context, err error) error {
	switch {
	case s.crash != nil:
		return s.crash
	case s.box.vm.Exhausted():
		return &runner.Failure{Reason: runner.Kill, Type: "OOMError", Message: "Run exceeded maximum memory usage"}
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		// The prelude catches what jobs throw; this is what it cannot catch,
		// such as a stack that is too deep for it.
		return &runner.Failure{Reason: runner.Crash, Type: "ExecutionError", Message: className.ReplaceAllString(err.Error(), "")}
	}
	return nil
}

// className is what QuickJS has before the message of an error, and OpenFn's engine has not.
var className = regexp.MustCompile(`^\w*Error: `)
