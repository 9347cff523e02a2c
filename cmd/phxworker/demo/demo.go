// Package demo shows a worker at work: a mock server and a worker in one
// process, the plans of package examples, and what became of them.
//
// [Run] listens on a free port of the loopback interface only, and returns when
// nothing it started runs any more.
package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/phxworker/phxworker"
	"github.com/phxworker/phxworker/examples"
	"github.com/phxworker/phxworker/mockserver"
	"github.com/phxworker/phxworker/mockserver/page"
	"github.com/phxworker/phxworker/slots"
)

// Config is what to show, and where.
type Config struct {
	// Out takes the progress and the closing table.
	Out io.Writer
	// Columns is how wide a line of Out may be. Defaults to 80.
	Columns int
	// Keep leaves everything up at the end, until the context ends.
	Keep bool
	// Engine executes the runs.
	Engine phxworker.Engine
	// Examples are put to the worker, in this order.
	Examples []examples.Example
	// Logger takes what the worker logs. Defaults to none.
	Logger *slog.Logger
}

const (
	groups = "fast_lane:1 manual>*:4"
	// wakeDebounce is shorter than Lightning's: nobody watches a pause.
	wakeDebounce = 20 * time.Millisecond
	// grace is how long the runs may go on after an interrupt.
	grace = 5 * time.Second
	// deadline is far beyond what the examples take. It is for a worker that
	// lost one.
	deadline = time.Minute
	// transcript is how many frames are kept for whoever looks at the runs: more than those of the examples.
	transcript = 20_000
)

var (
	errInterrupted = errors.New("interrupted before all runs had ended")
	errDeadline    = fmt.Errorf("not all runs ended within %v", deadline)
	errWorkerEnded = errors.New("the worker stopped by itself")
)

// Run returns nil if every run ended as its example says. If one did not, the
// error is an [*OutcomeError]; it may also tell that the demo could not begin
// or was interrupted.
func Run(ctx context.Context, cfg Config) error {
	server, err := mockserver.Start(mockserver.Config{WakeDebounce: wakeDebounce, TranscriptLimit: transcript, Page: page.New(examples.Files()), Logger: cfg.Logger})
	if err != nil {
		return err
	}
	defer server.Close()
	worker, err := phxworker.New(phxworker.Config{
		URL: server.URL(), Secret: server.Secret(), PublicKey: server.PublicKey(),
		Engine: cfg.Engine, Groups: slots.MustParse(groups), Name: "demo", Grace: grace, Logger: cfg.Logger,
	})
	if err != nil {
		return err
	}

	// Whatever ends this context, the worker stops in good order before the
	// server is closed.
	working, stop := context.WithCancelCause(ctx)
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		if err := worker.Run(working); err != nil {
			stop(err)
		}
		stop(errWorkerEnded)
	}()
	defer func() {
		stop(nil)
		<-stopped
	}()

	fmt.Fprintf(cfg.Out, "watch it in a browser: %s\n\n", server.HTTPURL())
	err = show(working, cfg, server)
	if cfg.Keep && working.Err() == nil {
		printAddresses(cfg.Out, server)
		<-working.Done()
		if ctx.Err() == nil {
			return context.Cause(working)
		}
		return err
	}
	if err != nil && ctx.Err() != nil {
		return errInterrupted
	}
	return err
}

// show puts the examples to the worker, follows them, and prints the table.
func show(ctx context.Context, cfg Config, server *mockserver.Server) error {
	scene := &scene{server: server, examples: cfg.Examples}
	if err := scene.awaitWorker(ctx); err != nil {
		return err
	}
	begin := time.Now()
	if err := scene.enqueue(); err != nil {
		return err
	}
	bounded, cancel := context.WithTimeoutCause(ctx, deadline, errDeadline)
	defer cancel()
	final, err := scene.follow(bounded, &lines{out: cfg.Out, shown: make(map[string]stage)})
	printReport(cfg.Out, max(cfg.Columns, width), final, time.Since(begin))
	if err != nil {
		return err
	}
	return check(final)
}
