// Command phxconform tries a Lightning worker, or a server for such workers, against the cases of
// package conform and says what came of each.
//
// Exit codes: 0 when nothing is red, 1 when something is, 2 for a command line that it does not
// understand, 3 when the cases were not all tried because it was interrupted, none could be, or a report
// could not be written. Red is a must that failed; with --expected-failures it is every failure that is
// not in that list, and every pass that is. A case that was not tried is not red, and is no pass
// either: the summary counts them.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/phxworker/phxworker/mockserver/conform/suite"
)

func main() {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-signals
		cancel(suite.ErrInterrupted)
		signal.Stop(signals) // a second one ends the process the hard way
	}()
	os.Exit(run(ctx, os.Args, os.Stdout, os.Stderr))
}
