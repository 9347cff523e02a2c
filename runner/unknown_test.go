package runner

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/claim"
	"github.com/phxworker/phxworker/mockserver/fault"
)

// Guards against a refused step:start that takes the lines of its step with it:
// the server takes no line of a step that it does not know.
func TestTheLinesOfAStepThatTheServerDoesNotKnowGoOutWithoutIt(t *testing.T) {
	tests := []struct {
		name  string
		count int // of refusals
		known bool
	}{
		{name: "refused with its input only", count: 1, known: true},
		{name: "refused in any form", count: 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			onWire(t, func(t *testing.T, w *wire) {
				run := planOf(`,"dataclip_id":"d"`)
				run.Dataclip = json.RawMessage(`{"data":1}`)
				id, token := w.claim(run)
				w.fail(fault.Rule{Event: "step:start", Action: fault.Refuse, Count: tt.count, Response: json.RawMessage(`{"errors":{"input_dataclip_id":["does not exist"]}}`)})
				engine := Func(func(_ context.Context, run *Run) (any, error) {
					step := run.StartStep("a", nil)
					step.Log(TextLine("info", "JOB", "one"))
					step.Log(TextLine("info", "JOB", "two"))
					step.Complete(StepResult{State: json.RawMessage(`{}`), Leaf: true})
					return nil, nil
				})
				New(Config{Engine: engine}).Run(t.Context(), t.Context(), w.socket, claim.Run{ID: id, Token: token}, nil)
				require.Equal(t, "success", w.result("r1").Reason)
				require.Equal(t, []string{"one", "two"}, w.logged("r1")[:2])
				for _, line := range w.events("r1", "run:log")[:2] {
					require.Equal(t, tt.known, line["step_id"] != nil)
				}
				require.Equal(t, tt.known, len(w.events("r1", "step:complete")) == 1)
				require.Equal(t, tt.known, w.result("r1").FinalDataclipID != "", "only what the server has may be referenced")
			})
		})
	}
}

// A server may have lost a step since. Its lines are not lost for it.
func TestTheLinesOfAStepThatTheServerHasLost(t *testing.T) {
	onWire(t, func(t *testing.T, w *wire) {
		id, token := w.claim(planOf(""))
		w.fail(fault.Rule{Event: "run:log", Action: fault.Refuse, Response: json.RawMessage(`{"step_id":["must be associated with the run"]}`)})
		engine := Func(func(_ context.Context, run *Run) (any, error) {
			step := run.StartStep("a", nil)
			step.Log(TextLine("info", "JOB", "one"))
			step.Log(TextLine("info", "JOB", "two"))
			step.Complete(StepResult{Leaf: true})
			return nil, nil
		})
		New(Config{Engine: engine}).Run(t.Context(), t.Context(), w.socket, claim.Run{ID: id, Token: token}, nil)
		require.Equal(t, []string{"one", "two"}, w.logged("r1")[:2])
		for _, line := range w.events("r1", "run:log")[:2] {
			require.NotContains(t, line, "step_id", "one line finds it out for the others")
		}
	})
}
