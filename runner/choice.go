package runner

import (
	"context"
	"encoding/json"
)

// Accepter is an engine for some plans only.
type Accepter interface {
	Preparer
	// Accepts returns why the engine cannot execute the plan, in a sentence without a full
	// stop, nil if it can. When ctx has ended, what it returns does not matter.
	Accepts(ctx context.Context, plan *Plan) error
}

// Either returns an engine that leaves to second what first does not accept. It is a
// [Checker] that asks both, so that a worker takes no runs while one of them is ill: which
// one a run needs is not known before it is claimed. An engine that is not meant to work
// everywhere has to say so itself, by a Check that does not fail for that.
func Either(first Accepter, second Preparer) Preparer { return &either{first, second} }

type either struct {
	first  Accepter
	second Preparer
}

var _ Checker = (*either)(nil)

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

func (e *either) choose(ctx context.Context, run *Run) Preparer {
	if e.first.Accepts(ctx, run.Plan) == nil {
		return e.first
	}
	return e.second
}

// Prepare says, where the second engine cannot be had, why the run needs that one.
func (e *either) Prepare(ctx context.Context, run *Run) (Versions, error) {
	why := e.first.Accepts(ctx, run.Plan)
	if why == nil {
		return e.first.Prepare(ctx, run)
	}
	versions, err := e.second.Prepare(ctx, run)
	if failure, ok := err.(*Failure); ok && failure.Reason == Exception && ctx.Err() == nil { //nolint:errorlint // one that is wrapped is the worker's own
		explained := *failure
		explained.Message += "; this run cannot do without: " + why.Error()
		return versions, &explained
	}
	return versions, err
}

// Notify hands a notice to the engine that has the run, if that takes any.
func (e *either) Notify(ctx context.Context, run *Run, notice json.RawMessage) {
	if engine, ok := e.choose(ctx, run).(Notifiable); ok {
		engine.Notify(ctx, run, notice)
	}
}

func (e *either) Execute(ctx context.Context, run *Run) (Result, error) {
	return e.choose(ctx, run).Execute(ctx, run)
}
