package runner

import (
	"context"
	"slices"
)

// ExecuteFunc executes a run, as [Execution.Execute] does.
type ExecuteFunc func(ctx context.Context, run *Run) (Result, error)

// Middleware puts something around the execution of every run: it returns a
// function that does something, calls next once, and does something more. It may
// change the context, the result and the error, or not call next at all. What it
// does counts toward the time of the run, and a panic in it ends that run only.
// The engine prepares the run without it.
type Middleware func(next ExecuteFunc) ExecuteFunc

// executeFunc returns an execution with the middleware around it.
func (c *Config) executeFunc(execution Execution) ExecuteFunc {
	execute := func(ctx context.Context, _ *Run) (Result, error) { return execution.Execute(ctx) }
	for _, around := range slices.Backward(c.Middleware) {
		execute = around(execute)
	}
	return execute
}
