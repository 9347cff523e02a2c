// Command phxworker is a worker for job queues served over Phoenix channels,
// first of all OpenFn Lightning's.
//
//	phxworker [start] [options]   claim runs and execute them
//	phxworker demo                show it, with a mock server in the same process
//
// SIGINT and SIGTERM stop it in good order: no more claims, the runs under way
// finish and are reported, the queue is left. A second signal ends it at once.
//
// Exit codes: 0 after such a stop, or a demo in which all went well; 1 for a
// failure at run time; 2 for a command line, an environment or a file that it
// cannot work with, with one line on standard error that says what to do.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

//go:generate go run ./options/docgen

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// After the first signal the default is back, so that a second one ends a
	// process that takes too long.
	context.AfterFunc(ctx, stop)
	p := &program{getenv: os.Getenv, stdout: os.Stdout, stderr: os.Stderr}
	code := p.run(ctx, os.Args)
	stop()
	os.Exit(code)
}
