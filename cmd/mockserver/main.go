// Command mockserver is a mock of OpenFn Lightning: a server that workers claim
// runs from, and that runs are posted to by HTTP. See package mockserver.
//
// Exit codes: 0 after SIGINT or SIGTERM, 1 if it could not start (the port is in
// use, say), 2 for a command line it does not understand.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// Once stopping, a second signal ends the process the hard way.
	context.AfterFunc(ctx, stop)
	code := run(ctx, os.Args, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}
