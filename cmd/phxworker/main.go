// Command phxworker is a worker for job queues served over Phoenix channels,
// first of all OpenFn Lightning's.
//
//	phxworker [start] [options]   claim runs and execute them
//	phxworker status              show what a worker that runs does
//	phxworker pause, resume, slots, cancel, drain
//	                              steer it
//	phxworker demo                show it, with a mock server in the same process
//	phxworker adaptors            install or list adaptors for the OpenFn engine
//	phxworker spool               list or send what could not be reported of runs
//
// SIGINT and SIGTERM stop it in stages. The first: no more claims, the runs under
// way finish and are reported, the queue is left. The second: the runs are
// cancelled and reported. The third ends the process at once. Signals that come within
// a second are one: timeout(1) and process groups send each twice.
//
// Exit codes: 0 after the first stage, or a demo in which all went well; 1 for a
// failure that may pass, such as a port that is taken or an engine that does not
// answer; 2 for a command line, an environment or a file that it cannot work with,
// with one line on standard error that says what to do; 3 after the second stage,
// or when the runs did not finish in their grace; 4 after the third.
package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	stdlog "log"
	"os"
	"os/signal"
	"syscall"

	"github.com/phxworker/phxworker/internal/fence"
)

//go:generate go run ./options/docgen

func main() {
	if err := fence.CloseOnExec(); err != nil { // npm and engines shall not inherit what a shell had open
		fmt.Fprintln(os.Stderr, "phxworker: descriptors that are open stay so in processes of the engine:", err)
	}
	stdlog.SetOutput(withoutUnsolicited{os.Stderr})
	drain, stopDrain := context.WithCancel(context.Background())
	abort, stopAbort := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 3)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go eachSignal(signals, stopDrain, stopAbort, func() {
		fmt.Fprintln(os.Stderr, "phxworker: ended at once; what was under way is not reported")
		os.Exit(exitAtOnce)
	})
	p := &program{getenv: os.Getenv, environ: os.Environ(), stdout: os.Stdout, stderr: os.Stderr, abort: abort}
	os.Exit(p.run(drain, os.Args))
}

// withoutUnsolicited passes on what the standard log is told, but for one line. net/http writes that, and takes no other
// logger for it, when a server says why it closes a connection that nobody uses: a registry may, and no request fails by it.
type withoutUnsolicited struct{ w io.Writer }

func (w withoutUnsolicited) Write(line []byte) (int, error) {
	if bytes.Contains(line, []byte("Unsolicited response received on idle HTTP channel")) {
		return len(line), nil
	}
	return w.w.Write(line)
}
