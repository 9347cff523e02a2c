package runner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/phxworker/phxworker/runner/terms"
)

// readied is what an engine has prepared, and its versions.
type readied struct {
	Execution

	versions Versions
}

func (r *Runner) prepare(ctx context.Context, run *Run) (readied, *Failure) {
	ready, failure := guard(ctx, r, run, func() (ready readied, err error) {
		ready.Execution, err = r.cfg.Engine.Prepare(ctx, run)
		if err == nil && ready.Execution == nil {
			err = errors.New("the engine returned neither an execution nor an error")
		}
		if err != nil {
			return readied{}, orException(err, "PrepareError")
		}
		told := false
		defer func() {
			if !told { // Versions panics
				ready.Close()
			}
		}()
		ready.versions = ready.Versions()
		told = true
		return ready, nil
	}, func(late readied) {
		if late.Execution != nil {
			_ = run.survive(func() error { late.Close(); return nil })
		}
	})
	if failure != nil && ctx.Err() != nil { // whatever the engine made of it
		failure = failureOf(ctx, context.Cause(ctx))
	}
	return ready, failure
}

// execute lets the engine execute the run. A step that it leaves open without
// an error is a mistake of the engine's, which must not look like success.
func (r *Runner) execute(ctx context.Context, run *Run, execution Execution) (Result, *Failure) {
	result, failure := guard(ctx, r, run, func() (Result, error) {
		defer execution.Close() // here, for an engine that is left behind is still at it
		do := func(ctx context.Context, _ *Run) (Result, error) { return execution.Execute(ctx) }
		for _, around := range slices.Backward(r.cfg.Middleware) {
			do = around(do)
		}
		return do(ctx, run)
	}, func(Result) {})
	if failure == nil && len(run.openJobs()) > 0 {
		failure = &Failure{Reason: Exception, Type: "EngineError", Message: "The engine ended without completing a step that it had started"}
	}
	return result, failure
}

// guard calls into the engine, whatever the engine does: a panic ends this run only, and a call that does not return
// when its context has ended is left behind; takeLate gets what it returns after all.
func guard[T any](ctx context.Context, r *Runner, run *Run, call func() (T, error), takeLate func(T)) (T, *Failure) {
	type end struct {
		result T
		err    error
	}
	ended, left := make(chan end), make(chan struct{})
	go func() {
		// What stands if the call neither returns nor panics but ends its goroutine.
		e := end{err: &Failure{Reason: Crash, Type: "EngineError", Message: "the engine ended its goroutine"}}
		defer func() {
			if v := recover(); v != nil {
				run.panicked("panic in the engine", v)
				e = end{err: &Failure{Reason: Crash, Type: "Panic", Message: fmt.Sprintf("panic: %v", v)}}
			}
			select {
			case ended <- e:
			case <-left:
				r.count(func(s *Stats) { s.StuckNow-- })
				run.log.Warn("an engine that had been left behind has returned after all")
				takeLate(e.result)
			}
		}()
		result, err := call()
		e = end{result, err}
	}()
	over, tooLong := ctx.Done(), (<-chan time.Time)(nil)
	for {
		select {
		case e := <-ended:
			return e.result, failureOf(ctx, e.err)
		case <-over:
			over, tooLong = nil, time.After(r.cfg.EngineGrace)
		case <-tooLong:
			r.count(func(s *Stats) { s.Stuck, s.StuckNow = s.Stuck+1, s.StuckNow+1 })
			close(left)
			run.log.Error("the engine did not stop when its context ended; the run goes on without it", "grace", r.cfg.EngineGrace)
			var none T
			return none, failureOf(ctx, context.Cause(ctx))
		}
	}
}

// failureOf says what an error means for the run. After the context ended, an
// error of the engine's is taken for its way of saying that it noticed.
func failureOf(ctx context.Context, err error) *Failure {
	var failure *Failure
	wants := dispositionOf(err)
	switch {
	case err == nil:
		return nil
	case wants != nil && (ctx.Err() == nil || !wants.returns()): // a run that was stopped does not go back for that
		return wants
	case errors.As(err, &failure):
		return failure
	case ctx.Err() == nil:
		return &Failure{Reason: Fail, Type: "JobError", Message: err.Error()}
	case errors.As(context.Cause(ctx), &failure):
		return failure
	}
	return &Failure{
		Reason: Cancel, Type: "WorkerStopped", Message: "The worker was stopped before the run had ended",
		settled: Requeued, release: terms.ReleaseRequeue, why: "the worker was stopped", stopped: true,
	}
}

// topicLost is how a run ends for the worker when the server will not hear of it
// any more: its topic has ended for good, or is not answered.
func topicLost(cause error) *Failure {
	return &Failure{Reason: Exception, Type: "TopicLost", Message: "The server cannot be told of the run any more: " + cause.Error()}
}

func timeout(format string, args ...any) *Failure {
	return &Failure{Reason: Kill, Type: "TimeoutError", Message: fmt.Sprintf(format, args...)}
}
