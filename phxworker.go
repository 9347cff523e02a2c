// Package phxworker is a worker for job queues that are served over Phoenix
// channels, first of all those of OpenFn Lightning.
//
// A [Worker] keeps a socket to the server, joins worker:queue, and claims runs
// for each of its slot groups on its own. Each run is executed by an [Engine]
// and reported on its own topic. An engine can be as small as a Go function:
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
// One that prepares something before a run starts, such as a folder, returns an [Execution]
// of its own from Prepare; see the example there.
//
// Workers share nothing: there may be any number of them in one process.
//
// # Stopping
//
// When the context of [Worker.Run] ends, the worker claims no more, lets its
// runs finish for as long as [Config.Grace] allows, leaves the queue and closes
// the socket. A claim whose reply is on its way is waited for, because the
// server has given its run away already.
//
// # Watching and steering
//
// [Worker.Stats] is the worker at one moment, [Worker.Subscribe] what happens to
// it. [Hooks.Gate] holds claims back, [Hooks.Accept] decides on each run,
// [Hooks.Middleware] is around its execution, [Hooks.AfterRun] comes behind it.
// [Worker.Pause], [Worker.Resume], [Worker.Resize], [Worker.Cancel] and
// [Worker.Drain] are for whoever operates it. The file example_hooks_test.go has
// programs that do these things. The packages cmd/phxworker/web and
// cmd/phxworker/metrics serve the same as a page, with probes and controls, and to
// Prometheus.
//
// # Runs that go back
//
// An engine, or Accept, may return [ErrRequeue], [Requeue], [Postpone], [Discard] or [Poison]
// instead of an ordinary error. The first three need a server that takes runs back: see
// [Config.Extensions]. What may succeed when it is tried again at once, [Retry] tries.
package phxworker

import (
	"context"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/phxworker/phxworker/claim"
	"github.com/phxworker/phxworker/runner"
	"github.com/phxworker/phxworker/runner/delivery"
)

// What most programs need of package runner.
type (
	// Engine executes runs; see [runner.Engine].
	Engine = runner.Engine
	// Func is an engine that is one Go function; see [runner.Func].
	Func = runner.Func
	// Run is what an engine executes; see [runner.Run].
	Run = runner.Run
	// Limits bound a run; see [runner.Limits].
	Limits = runner.Limits
	// Failure is an error that says how a run ended; see [runner.Failure].
	Failure = runner.Failure
	// Reason is how a run ended: [runner.Fail] or one of its neighbours.
	Reason = runner.Reason
	// BatchLogs says how log lines are collected; see [delivery.BatchLogs].
	BatchLogs = delivery.BatchLogs
	// Middleware is something around every run; see [runner.Middleware].
	Middleware = runner.Middleware
	// ExecuteFunc is what middleware is around; see [runner.ExecuteFunc].
	ExecuteFunc = runner.ExecuteFunc
	// AcceptFunc decides on a run; see [runner.AcceptFunc].
	AcceptFunc = runner.AcceptFunc
	// Settlement is what became of a run in the server's queue; see
	// [runner.Settlement].
	Settlement = runner.Settlement
	// Execution is a run that an engine has prepared; see [runner.Execution].
	Execution = runner.Execution
	// Versions name what executes a run; see [runner.Versions].
	Versions = runner.Versions
	// Notifiable is an execution that takes notices; see [runner.Notifiable]. One whose Notify
	// has other arguments, or a result, is none: let the compiler look, as in
	// var _ phxworker.Notifiable = (*execution)(nil).
	Notifiable = runner.Notifiable
	// Result is what an execution came to; see [runner.Result].
	Result = runner.Result
	// Delivery says how what runs report gets to the server; see [delivery.Config].
	Delivery = delivery.Config
	// Histogram is how long things took; see [claim.Histogram].
	Histogram = claim.Histogram
)

// Prepared returns an execution that is a function; see [runner.Prepared].
func Prepared(versions Versions, execute func(ctx context.Context) (Result, error)) Execution {
	return runner.Prepared(versions, execute)
}

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
