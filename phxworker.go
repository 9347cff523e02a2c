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
// Workers share nothing: there may be any number of them in one process.
//
// # Stopping
//
// When the context of [Worker.Run] ends, the worker claims no more, lets its
// runs finish for as long as [Config.Grace] allows, leaves the queue and closes
// the socket. A claim whose reply is on its way is waited for, because the
// server has given its run away already.
package phxworker

import "github.com/phxworker/phxworker/runner"

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
	// Reason is how a run ended; see [runner.Reason].
	Reason = runner.Reason
)
