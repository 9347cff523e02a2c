package runner

import (
	"context"
	"encoding/json"
)

// Accepter is an engine for some plans only.
type Accepter interface {
	Preparer
	// Accepts reports whether the engine can execute the plan.
	Accepts(plan *Plan) bool
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

func (e *either) choose(run *Run) Preparer {
	if e.first.Accepts(run.Plan) {
		return e.first
	}
	return e.second
}

func (e *either) Prepare(ctx context.Context, run *Run) (Versions, error) {
	return e.choose(run).Prepare(ctx, run)
}

// Notify hands a notice to the engine that has the run, if that takes any.
func (e *either) Notify(ctx context.Context, run *Run, notice json.RawMessage) {
	if engine, ok := e.choose(run).(Notifiable); ok {
		engine.Notify(ctx, run, notice)
	}
}

func (e *either) Execute(ctx context.Context, run *Run) (Result, error) {
	return e.choose(run).Execute(ctx, run)
}
