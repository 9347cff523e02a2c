package runner

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/phxworker/phxworker/runner/delivery"
)

// Reason is how a run or a step ended, in Lightning's words.
type Reason = delivery.Reason

// The reasons, from good to bad. Those after Fail end the run at once.
const (
	// Success: nothing went wrong.
	Success Reason = "success"
	// Fail: the job reported an error; the workflow goes on along its edges.
	Fail Reason = "fail"
	// Crash: the job threw what it should not have, or cannot be compiled.
	Crash Reason = "crash"
	// Cancel: somebody ended the run before its time.
	Cancel Reason = "cancel"
	// Kill: a limit was exceeded, of time or of memory.
	Kill Reason = "kill"
	// Exception: a fault outside the user's code.
	Exception Reason = "exception"
)

var reasons = []Reason{Success, Fail, Crash, Cancel, Kill, Exception}

// severity orders reasons: of several leafs, the worst decides.
func severity(r Reason) int { return slices.Index(reasons, r) }

// reason returns the one that an engine gave, or what stands for it: the server takes no end of a run, or of a step, for
// another than its own, and the run would be lost over a slip of the pen.
func (r *Run) reason(given, none Reason) Reason {
	switch {
	case given == "":
		return none
	case severity(given) >= 0:
		return given
	}
	r.log.Error("the engine gave a reason that there is not; an exception is reported", "reason", given, "reasons", reasons)
	return Exception
}

// aborted reports whether the reason is one that ends a run before its plan does. Such a run has no final state.
func aborted(r Reason) bool { return r != Success && r != Fail }

// Failure is an error that says how a run ended. An engine returns one when
// the run ended before its plan did; a [Func] may return one as well.
type Failure struct {
	// Reason defaults to Fail. One that there is not is reported as Exception.
	Reason Reason
	// Type is Lightning's error_type, such as "CompileError".
	Type    string
	Message string

	// What follows is what is to become of the run where the server can do it; the fields above are for servers that
	// cannot.

	settled Settlement // empty for one that is reported
	delay   time.Duration
	why     string // for people
	release string // what the server is told; empty for one that does not return the run
	stopped bool   // because the worker stops
	unable  bool   // it was this worker that could not execute the run
}

// ErrCancelled matches every failure whose reason is [Cancel]: it is how an engine
// sees, by [context.Cause], that its run was cancelled.
var ErrCancelled = errors.New("the run was cancelled")

// Is reports whether the target is [ErrCancelled] and the run was.
func (f *Failure) Is(target error) bool {
	return target == ErrCancelled && f.Reason == Cancel
}

// Cancellation returns the failure of a run that somebody cancelled; the message says who or why.
func Cancellation(message string) *Failure {
	return &Failure{Reason: Cancel, Type: "RunCancelled", Message: message}
}

func (f *Failure) Error() string {
	return fmt.Sprintf("%s (%s): %s", f.Type, f.Reason, f.Message)
}
