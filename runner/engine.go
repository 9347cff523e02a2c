package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// Engine executes plans. [Func] is the simplest; [Prepared] is for engines that have
// something to do before a run starts.
type Engine interface {
	// Prepare does what must be done before a run may start, such as finding its adaptors.
	// It must return soon after ctx ended; [context.Cause] then tells why.
	//
	// An error ends the run before its run:start. One that is neither a [*Failure] nor
	// [ErrRequeue] or the like is an Exception of type PrepareError.
	//
	// Prepare is called concurrently for different runs, and once more for a run that
	// the engine was not able to prepare (see [Unable]). A panic in it ends that run as a Crash.
	Prepare(ctx context.Context, run *Run) (Execution, error)
}

// Execution is a run that its engine has prepared. One that takes notices of the server is a [Notifiable] as well.
type Execution interface {
	// Versions names what executes the run, besides the worker. Unless it is nil, the run's
	// log begins with its limits and versions, as with OpenFn's worker.
	Versions() Versions
	// Execute takes the run to its end and reports every step and line through
	// it. It is called once at most, and returns when nothing of the run is under way any
	// more, which must be soon after ctx ended; [context.Cause] then tells why.
	//
	// A nil error means that the plan was followed to its end: the reason of the run is then that of its leaf steps, as
	// OpenFn's worker tells it: the worst; the last step of a job counts, and no fail of one whose edges lead to a job
	// that was executed. A [*Failure] says how the run ended instead; any other error is a Fail of type JobError. Steps
	// still open when Execute returns are completed with that failure; without one, they make the run an Exception.
	//
	// A panic in Execute ends the run as a Crash.
	Execute(ctx context.Context) (Result, error)
	// Close frees what Prepare took for the run. It is called once: when Execute has returned, or instead of it.
	Close()
}

// Prepared returns an [Execution] that is a function, and has nothing to close.
func Prepared(versions Versions, execute func(ctx context.Context) (Result, error)) Execution {
	return &prepared{versions, execute}
}

type prepared struct {
	versions Versions
	execute  func(ctx context.Context) (Result, error)
}

func (p *prepared) Versions() Versions                          { return p.versions }
func (p *prepared) Execute(ctx context.Context) (Result, error) { return p.execute(ctx) }
func (p *prepared) Close()                                      {}

// ExecuteFunc executes a run, as [Execution.Execute] does.
type ExecuteFunc func(ctx context.Context, run *Run) (Result, error)

// Middleware puts something around the execution of every run: it returns a function that does something, calls next
// once, and does something more. It may change the context, the result and the error, or not call next at all. What it
// does counts toward the time of the run, and a panic in it ends that run only. The engine prepares the run without it.
type Middleware func(next ExecuteFunc) ExecuteFunc

// Checker is an [Engine] that can tell whether it could execute runs just now, without a run. A worker asks before it
// claims the first one, and again and again after a run that the engine was not able to execute (see [Unable]), until
// the error is nil. The error is one line for the operator: what is missing, where, what to do.
type Checker interface {
	Engine
	Check(ctx context.Context) error
}

// Host is whoever gives a [Runner] one run: it is told how the run goes.
type Host interface {
	// Begin holds back a run that was claimed ahead, once its plan is there: it receives nil when the run may go
	// on, and an error to end it as an engine's would. Nil is for a run that goes on at once.
	Begin() <-chan error
	// Joining tells that the run is under way, and not another one of its id.
	Joining()
	// Started tells that the engine begins to execute the run.
	Started()
	// Able tells that the engine executes the run, whose preparation began at that time: it
	// has begun a step, has been at it for half a second, or has ended the run in whatever
	// way that is no failure of its own (see [Unable]). It is called once, from any goroutine.
	Able(began time.Time)
	// Unable tells that the engine was not able to prepare or to execute the run.
	Unable(cause error)
	// AwaitEngine returns nil once there is sense in another try to prepare the run: nothing
	// was reported of it yet.
	AwaitEngine(ctx context.Context) error
}

// noHost is the host of a run that nobody follows.
type noHost struct{}

func (noHost) Begin() <-chan error               { return nil }
func (noHost) Joining()                          {}
func (noHost) Started()                          {}
func (noHost) Able(time.Time)                    {}
func (noHost) Unable(error)                      {}
func (noHost) AwaitEngine(context.Context) error { return errors.ErrUnsupported }

// Versions names what executes a run, for run:start: "worker", "engine", and for each adaptor the list of its versions.
type Versions map[string]any

// Result is what a plan came to.
type Result struct {
	// State becomes final_state. Nil leaves it out.
	State json.RawMessage
}

// Func is the simplest engine: a Go function that is the whole run. What it returns, as JSON, is the final state; its
// error says why the run failed (see [Execution]). It need not report steps.
type Func func(ctx context.Context, run *Run) (any, error)

var _ Engine = Func(nil)

// Prepare returns an [Execution] that calls f.
func (f Func) Prepare(_ context.Context, run *Run) (Execution, error) {
	return Prepared(nil, func(ctx context.Context) (Result, error) { return f.execute(ctx, run) }), nil
}

func (f Func) execute(ctx context.Context, run *Run) (Result, error) {
	state, err := f(ctx, run)
	var failure *Failure
	if state == nil || (errors.As(err, &failure) && aborted(failure.Reason)) {
		return Result{}, err
	}
	data, marshalErr := json.Marshal(state)
	if marshalErr != nil {
		return Result{}, errors.Join(err, fmt.Errorf("the final state cannot be written as JSON: %w", marshalErr))
	}
	return Result{State: data}, err
}
