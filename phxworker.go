// Package phxworker is a worker for job queues that are served over Phoenix channels, as OpenFn
// Lightning's is.
//
// A [Worker] connects to the server, joins worker:queue, and claims runs for each of its slot groups.
// An [Engine] executes each run, and the worker reports it on the run's own topic. An engine can be as
// small as a Go function:
//
//	worker, err := phxworker.New(phxworker.Config{
//		URL:    "ws://localhost:8888/worker",
//		Secret: secret,
//		Engine: phxworker.Func(func(ctx context.Context, run *phxworker.Run) (any, error) {
//			return map[string]any{"greeting": "hello " + run.ID}, nil
//		}),
//	})
//	if err == nil {
//		err = worker.Run(ctx)
//	}
//
// An engine that prepares something before a run starts, such as a folder, returns an [Execution] of
// its own from Prepare; see the example there.
//
// Workers share nothing: there may be any number of them in one process.
//
// When the context of [Worker.Run] ends, the worker claims no more. It lets its runs finish for
// [Config.Grace] at most, leaves the queue and closes the socket.
//
// [Worker.Stats] shows the worker at one moment, and [Worker.Subscribe] what happens to it. The worker
// calls your [Hooks]. Its operator calls [Worker.Pause], [Worker.Resize], [Worker.Cancel],
// [Worker.Drain] and others. The file example_hooks_test.go has programs that do these things. The
// package cmd/phxworker/web serves a status page with probes and controls; cmd/phxworker/metrics serves
// the numbers to Prometheus.
//
// An engine, or Accept, may return [ErrRequeue], [Requeue], [Postpone], [Discard] or [Poison] instead
// of an ordinary error. The first three need a server that takes runs back: see [Config.Extensions].
// [Retry] is for a call in a handler that may succeed when it is tried again at once.
package phxworker

import (
	"context"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/phxworker/phxworker/claim"
	"github.com/phxworker/phxworker/runner"
	"github.com/phxworker/phxworker/runner/delivery"
)

// What an engine is written with; see package runner.
type (
	// Engine executes runs; see [runner.Engine].
	Engine = runner.Engine
	// Func is the simplest engine, one Go function; see [runner.Func].
	Func = runner.Func
	// Run is what an engine executes; see [runner.Run].
	Run = runner.Run
	// Execution is a run that an engine has prepared; see [runner.Execution].
	Execution = runner.Execution
	// Versions are what a run says of its engine; see [runner.Versions].
	Versions = runner.Versions
	// Result is what came of a run; see [runner.Result].
	Result = runner.Result
	// Notifiable is an execution that takes notices. Let the compiler check that yours is one:
	// var _ phxworker.Notifiable = (*execution)(nil).
	Notifiable = runner.Notifiable
	// Step is one step under way; see [runner.Step].
	Step = runner.Step
	// StepResult is what came of a step; see [runner.StepResult].
	StepResult = runner.StepResult
	// Memory is what a step took; see [runner.Memory].
	Memory = runner.Memory
	// Line is a line of a run's log; see [runner.Line].
	Line = runner.Line
	// Failure is an error with the reason that the server is told; see [runner.Failure].
	Failure = runner.Failure
	// Reason is how a run or a step ended; see [runner.Reason].
	Reason = runner.Reason
)

// How a run or a step ended; see [runner.Success] and its neighbours.
const (
	Success   = runner.Success
	Fail      = runner.Fail
	Crash     = runner.Crash
	Cancel    = runner.Cancel
	Kill      = runner.Kill
	Exception = runner.Exception
)

// What a [Config] and the numbers of a [Worker] are made of.
type (
	// Limits bound a run; see [runner.Limits].
	Limits = runner.Limits
	// Middleware wraps the execution of runs; see [runner.Middleware].
	Middleware = runner.Middleware
	// ExecuteFunc executes one run; see [runner.ExecuteFunc].
	ExecuteFunc = runner.ExecuteFunc
	// AcceptFunc decides whether a run is taken; see [runner.AcceptFunc].
	AcceptFunc = runner.AcceptFunc
	// Delivery configures how events reach the server; see [delivery.Config].
	Delivery = delivery.Config
	// BatchLogs configures how lines of a log go together; see [delivery.BatchLogs].
	BatchLogs = delivery.BatchLogs
	// Settlement is what became of a run; see [runner.Settlement].
	Settlement = runner.Settlement
	// Histogram counts durations; see [claim.Histogram].
	Histogram = claim.Histogram
)

// Prepared returns an execution that is a function; see [runner.Prepared].
func Prepared(versions Versions, execute func(ctx context.Context) (Result, error)) Execution {
	return runner.Prepared(versions, execute)
}

// TextLine returns a line of one string; see [Line].
func TextLine(level, source, text string) Line { return runner.TextLine(level, source, text) }

// ErrRequeue says that a run failed and should be tried again; see
// [runner.ErrRequeue].
var ErrRequeue = runner.ErrRequeue

// Requeue says that a run failed and should be tried again after a delay; see
// [runner.Requeue].
func Requeue(delay time.Duration, reason string) error { return runner.Requeue(delay, reason) }

// Retry calls what fails at times until it succeeds; see [runner.Retry].
func Retry(ctx context.Context, policy backoff.BackOff, do func(ctx context.Context) error) error {
	return runner.Retry(ctx, policy, do)
}

// Postpone says that a run is for later; see [runner.Postpone].
func Postpone(delay time.Duration, reason string) error { return runner.Postpone(delay, reason) }

// Discard says that a run is not to be executed; see [runner.Discard].
func Discard(reason string) error { return runner.Discard(reason) }

// Poison says that a run must never be tried again; see [runner.Poison].
func Poison(reason string) error { return runner.Poison(reason) }
