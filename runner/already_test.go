package runner

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/claim"
	"github.com/phxworker/phxworker/mockserver/fault"
)

// Guards against an output that is taken for unknown to the server, or for known,
// because of what "already" in a refusal means: only after a lost copy is it that
// the event had arrived.
func TestARefusalThatSaysAlready(t *testing.T) {
	tests := []struct {
		name   string
		lost   bool // the answer to the first copy
		pushes int  // on record; the one that the fault refuses is not
	}{
		{name: "after a lost answer", lost: true, pushes: 2},
		{name: "out of the blue", pushes: 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			onWire(t, func(t *testing.T, w *wire) {
				id, token := w.claim(planOf(""))
				if tt.lost {
					w.fail(fault.Rule{Event: "step:complete", Skip: 1, Action: fault.Drop, When: fault.After})
				}
				w.fail(fault.Rule{Event: "step:complete", Skip: 1, Action: fault.Refuse, Response: json.RawMessage(`{"errors":{"id":["has already been taken"]}}`)})
				require.NoError(t, New(Config{Engine: Func(twoSteps)}).Run(t.Context(), t.Context(), w.socket, claim.Run{ID: id, Token: token}, nil).Err)
				require.Len(t, w.server.Faults(), tt.pushes)
				require.Equal(t, tt.pushes, w.pushes("r1", "step:complete"), "nothing less is offered")
				require.JSONEq(t, `{"data":{"x":2}}`, string(w.result("r1").FinalState), "which goes first from an end that is refused")
				require.Equal(t, tt.lost, w.result("r1").FinalDataclipID != "", "only what the server has may be referenced")
			})
		})
	}
}

// Guards against a final state that is left out, and an end that is taken for
// delivered, though nothing but the network is to blame.
func TestLostConnectionsTakeNothingFromTheEndOfARun(t *testing.T) {
	for _, action := range []fault.Action{fault.Drop, fault.Crash} {
		t.Run(string(action), func(t *testing.T) {
			onWire(t, func(t *testing.T, w *wire) {
				id, token := w.claim(planOf(""))
				w.fail(fault.Rule{Event: "run:complete", Action: action, When: fault.Before})
				w.fail(fault.Rule{Event: "run:complete", Action: fault.Drop, When: fault.Before, Count: 3})
				require.NoError(t, New(Config{Engine: Func(twoSteps)}).Run(t.Context(), t.Context(), w.socket, claim.Run{ID: id, Token: token}, nil).Err)
				require.Len(t, w.server.Faults(), 4)
				require.JSONEq(t, `{"data":{"x":2}}`, string(w.result("r1").FinalState))
			})
		})
	}
}
