package runner

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Guards against one of two open steps that is closed in the place of the other.
func TestAStepIsCompletedOnce(t *testing.T) {
	onWire(t, func(t *testing.T, w *wire) {
		w.run(Config{Engine: Func(func(_ context.Context, run *Run) (any, error) {
			a, b := run.StartStep("a", nil), run.StartStep("b", nil)
			b.Complete(StepResult{State: json.RawMessage(`{}`)})
			b.Complete(StepResult{State: json.RawMessage(`{}`), Reason: Fail, Leaf: true})
			a.Complete(StepResult{State: json.RawMessage(`{}`), Leaf: true})
			return nil, nil
		})}, planOf(""))
		require.Equal(t, "success", w.result("r1").Reason)
		completes := w.events("r1", "step:complete")
		require.Len(t, completes, 2)
		require.Equal(t, 2, w.pushes("r1", "step:complete"))
		require.Equal(t, []any{"b", "a"}, []any{completes[0]["job_id"], completes[1]["job_id"]})
	})
}

// An engine may write what it likes; the server takes only so much.
func TestALineIsMadeOneThatTheServerTakes(t *testing.T) {
	at := time.UnixMicro(1_700_000_000_123_456)
	line := Line{Level: "fatal", Source: "123456789", Time: at}.withDefaults()
	require.Equal(t, Line{Level: "info", Source: "12345678", Time: at}, line)
	require.Equal(t, "1234567", Line{Source: "1234567é"}.withDefaults().Source, "no half of a letter")
	require.Equal(t, "12345678", Line{Source: "12345678"}.withDefaults().Source)
	require.False(t, Line{}.withDefaults().Time.IsZero())
}

// Guards against errors that are kept of every step until the run is over: only that of
// the worst leaf is told once more.
func TestOnlyTheWorstLeafKeepsItsError(t *testing.T) {
	run := &Run{}
	ends := []StepResult{
		{Reason: Success, WebhookResponse: json.RawMessage(`{}`), Leaf: true},
		{Reason: Fail, ErrorType: "First", ErrorMessage: "of the first", Leaf: true},
		{Reason: Crash, ErrorType: "Inner", ErrorMessage: "of one in the middle"},
		{Reason: Kill, ErrorType: "Worst", ErrorMessage: "of the worst", Leaf: true},
		{Reason: Kill, ErrorType: "Later", ErrorMessage: "of one as bad", Leaf: true},
		{Reason: Fail, ErrorType: "Last", ErrorMessage: "of the last", Leaf: true},
	}
	var kept []StepResult
	var steps []*Step
	for range ends {
		step := newStep(run, "a", nil)
		run.open, steps = append(run.open, step), append(steps, step)
	}
	for i, step := range steps {
		require.True(t, run.completed(step, ends[i]))
	}
	require.Equal(t, &Failure{Reason: Kill, Type: "Worst", Message: "of the worst"}, worstLeaf(run))
	for _, step := range steps {
		kept = append(kept, step.result)
	}
	require.Equal(t, []StepResult{
		{Reason: Success}, {Reason: Fail}, {Reason: Crash}, {Reason: Kill, ErrorType: "Worst", ErrorMessage: "of the worst"}, {Reason: Kill}, {Reason: Fail},
	}, kept)
}
