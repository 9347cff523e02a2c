package runner

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strconv"
	"sync/atomic"
	"time"
)

// execute lets the engine execute the run, whatever the engine does: a panic
// ends this run only, and one that does not return when its context has ended
// is left behind.
func (r *Runner) execute(ctx context.Context, run *Run) (Result, *Failure) {
	type end struct {
		result Result
		err    error
	}
	ended := make(chan end, 1)
	var left atomic.Bool // the run has gone on without the engine
	go func() {
		// What stands if Execute neither returns nor panics but ends its
		// goroutine.
		e := end{err: &Failure{Reason: Crash, Type: "EngineError", Message: "the engine ended its goroutine"}}
		defer func() {
			if v := recover(); v != nil {
				run.log.Error("panic in the engine", "panic", v, "stack", string(debug.Stack()))
				e = end{err: &Failure{Reason: Crash, Type: "Panic", Message: fmt.Sprintf("panic: %v", v)}}
			}
			ended <- e
			if left.Load() {
				run.log.Warn("an engine that had been left behind has returned after all")
			}
		}()
		result, err := r.cfg.Engine.Execute(ctx, run)
		e = end{result, err}
	}()

	select {
	case e := <-ended:
		return e.result, failureOf(ctx, e.err)
	case <-ctx.Done():
	}
	grace := time.NewTimer(r.cfg.EngineGrace)
	defer grace.Stop()
	select {
	case e := <-ended:
		return e.result, failureOf(ctx, e.err)
	case <-grace.C:
		left.Store(true)
		run.log.Error("the engine did not stop when its context ended; the run goes on without it", "grace", r.cfg.EngineGrace)
		return Result{}, failureOf(ctx, context.Cause(ctx))
	}
}

// failureOf says what an error means for the run. After the context ended, an
// error of the engine's is taken for its way of saying that it noticed.
func failureOf(ctx context.Context, err error) *Failure {
	var failure *Failure
	switch {
	case err == nil:
		return nil
	case errors.As(err, &failure):
		return failure
	case ctx.Err() == nil:
		return &Failure{Reason: Fail, Type: "JobError", Message: err.Error()}
	case errors.As(context.Cause(ctx), &failure):
		return failure
	}
	return &Failure{Reason: Cancel, Type: "WorkerStopped", Message: "The worker was stopped before the run had ended"}
}

func timeoutFailure(limit time.Duration) *Failure {
	ms := strconv.FormatInt(limit.Milliseconds(), 10)
	return &Failure{Reason: Kill, Type: "TimeoutError", Message: "Workflow failed to return within " + ms + "ms"}
}

// worstLeaf returns how the worst of the run's leaf steps failed, nil if all of
// them succeeded. A step that others came after does not count: they had the
// chance to handle its failure.
func worstLeaf(run *Run) *Failure {
	var worst *Failure
	for _, step := range run.leafSteps() {
		result := step.result
		if result.Reason == Success || (worst != nil && worst.Reason.severity() >= result.Reason.severity()) {
			continue
		}
		worst = &Failure{Reason: result.Reason, Type: result.ErrorType, Message: result.ErrorMessage}
	}
	return worst
}
