package runner

import (
	"context"
	"errors"
)

// PartialEngine is an [Engine] for some runs only.
type PartialEngine interface {
	Engine
	// CanRun returns why the engine cannot execute the run, in a sentence without a full
	// stop, nil if it can. It is called each time that a run is to be prepared, with its plan and its input, and may
	// take as long as Prepare. When ctx has ended, what it returns does not matter.
	CanRun(ctx context.Context, run *Run) error
}

// Either returns an engine that leaves to second what first cannot run. It is a [Checker] that asks both, so that a
// worker takes no runs while one of them is ill: which one a run needs is not known before it is claimed. An engine
// that is not meant to work everywhere has to say so itself, by a Check that does not fail for that.
func Either(first PartialEngine, second Engine) Engine { return &either{first, second} }

type either struct {
	first  PartialEngine
	second Engine
}

var _ Checker = (*either)(nil)

// Prepare has one of the engines prepare the run, which then executes it. Where the second cannot be had, it says why
// the run needs that one; if that is a cause that passes, the run is not over for it.
func (e *either) Prepare(ctx context.Context, run *Run) (Execution, error) {
	why := e.first.CanRun(ctx, run)
	if why == nil {
		return e.first.Prepare(ctx, run)
	}
	execution, err := e.second.Prepare(ctx, run)
	failure, ok := err.(*Failure) //nolint:errorlint // one that is wrapped is the worker's own
	if !ok || failure.Reason != Exception || ctx.Err() != nil {
		return execution, err
	}
	wants := dispositionOf(why)
	if one, known := errors.AsType[*Failure](why); known && (wants == nil || !wants.unable) { // no engine would help, as with an adaptor that there is not
		return nil, one
	}
	explained := *failure
	if wants != nil && wants.unable {
		explained = *wants
		if explained.Message != failure.Message { // else both miss the same
			explained.Message += "; the other engine cannot be had either: " + failure.Message
		}
		return execution, Unable(&explained)
	}
	explained.Message += "; this run cannot do without: " + why.Error()
	return execution, &explained
}

// Check returns why one of the engines cannot execute runs.
func (e *either) Check(ctx context.Context) error {
	for _, engine := range []Engine{e.first, e.second} {
		checker, ok := engine.(Checker)
		if !ok {
			continue
		}
		if err := checker.Check(ctx); err != nil {
			return err
		}
	}
	return nil
}
