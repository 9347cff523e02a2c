package runner

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/claim"
	"github.com/phxworker/phxworker/mockserver"
	"github.com/phxworker/phxworker/mockserver/fault"
)

// Guards against an event that takes the connection down whenever it is sent, and
// with it every other run of the worker, until the run's token ends.
func TestAnEventThatTheConnectionDoesNotBearIsLessened(t *testing.T) {
	onWire(t, func(t *testing.T, w *wire) {
		id, token := w.claim(planOf(`,"options":{"run_timeout_ms":36000000}`))
		w.fail(fault.Rule{Event: "run:log", Action: fault.Drop, When: fault.Before, Count: 2 * manyLosses})
		w.fail(fault.Rule{Event: "step:complete", Action: fault.Drop, When: fault.Before, Count: 3 * manyLosses})
		w.fail(fault.Rule{Event: "run:complete", Action: fault.Drop, When: fault.Before, Count: manyLosses})
		require.NoError(t, New(Config{Engine: Func(twoSteps)}).Run(t.Context(), t.Context(), w.socket, claim.Run{ID: id, Token: token}, nil).Err)
		require.Equal(t, "success", w.result("r1").Reason)
		require.Contains(t, strings.Join(w.logged("r1"), "\n"), "it was left out")
		completes := w.events("r1", "step:complete")
		require.Len(t, completes, 2)
		require.NotEmpty(t, completes[0]["output_dataclip_id"], "an output is a text, and never the cause")
		require.Empty(t, w.result("r1").FinalState)
	})
}

// Guards against a payload that is under its limit and over that of a frame once
// it is escaped: it would close the socket for every run on it.
func TestAnOutputThatOutgrowsTheFrameIsReportedAsTooLarge(t *testing.T) {
	if testing.Short() {
		t.Skip("megabytes of text, which the race detector reads slowly")
	}
	onWire(t, func(t *testing.T, w *wire) {
		engine := Func(func(_ context.Context, run *Run) (any, error) {
			quotes, _ := json.Marshal(strings.Repeat(`"`, 4<<20)) // each is two bytes here, and three more within a string
			run.StartStep("a", nil).Complete(StepResult{State: quotes, Leaf: true})
			return json.RawMessage(`{"all":"well"}`), nil
		})
		id, token := w.claim(planOf(""))
		outcome := New(Config{Engine: engine}).Run(t.Context(), t.Context(), w.socket, claim.Run{ID: id, Token: token}, nil)
		require.NoError(t, outcome.Err)
		require.Equal(t, "DATACLIP_TOO_LARGE", w.events("r1", "step:complete")[0]["output_dataclip_error"])
		join, err := w.queue.Ready(t.Context())
		require.NoError(t, err)
		require.Equal(t, 1, join.Epoch, "nothing else on the socket suffers")
	})
}

// Guards against the same for an output that is sent as it is, whose size is that of the state.
func TestAnOutputThatIsSentNativelyIsNoLargerThanItsState(t *testing.T) {
	if testing.Short() {
		t.Skip("megabytes of text, which the race detector reads slowly")
	}
	for _, native := range []bool{true, false} {
		onWire(t, func(t *testing.T, w *wire) {
			engine := Func(func(_ context.Context, run *Run) (any, error) {
				state := `{"data":[` + strings.Repeat(`"abcd",`, 9_000_000/7) + `""]}` // as a text, it has 11.6 MB
				run.StartStep("a", nil).Complete(StepResult{State: json.RawMessage(state), Leaf: true})
				return json.RawMessage(`{"all":"well"}`), nil
			})
			require.NoError(t, w.run(Config{Engine: engine, NativeDataclips: native}, planOf("")).Err)
			require.Equal(t, native, w.events("r1", "step:complete")[0]["output_dataclip"] != nil)
		})
	}
}

// A version that does not take the form gets the step without its output, and the log says so.
func TestTheFormOfOutputsAgainstEachVersion(t *testing.T) {
	for form, takes := range map[mockserver.Dataclips][]bool{ // texts, objects
		mockserver.EitherDataclips: {true, true}, mockserver.ObjectDataclips: {false, true}, mockserver.TextDataclips: {true, false},
	} {
		for i, native := range []bool{false, true} {
			t.Run(fmt.Sprintf("%v native=%v", form, native), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newWire(t, mockserver.Config{Dataclips: form})
					require.NoError(t, w.run(Config{Engine: Func(twoSteps), NativeDataclips: native}, planOf("")).Err)
					require.Equal(t, "success", w.result("r1").Reason)
					step := w.events("r1", "step:complete")[0]
					require.Equal(t, takes[i], step["output_dataclip"] != nil)
					if !takes[i] {
						require.Equal(t, "DATACLIP_TOO_LARGE", step["output_dataclip_error"])
						require.Contains(t, strings.Join(w.logged("r1"), "\n"), "The output of the step was left out")
					}
				})
			})
		}
	}
}

func TestTheEndOfARunIsOfferedWithLess(t *testing.T) {
	tests := []struct {
		name string
		rule fault.Rule
	}{
		{name: "refused", rule: fault.Rule{Action: fault.Refuse, Response: json.RawMessage(`{"final_state":["is invalid"]}`), Count: 2}},
		{name: "refused under errors", rule: fault.Rule{Action: fault.Refuse, Response: json.RawMessage(`{"errors":{"final_state":["is invalid"]}}`), Count: 2}},
		{name: "refused in a word", rule: fault.Rule{Action: fault.Refuse, Response: json.RawMessage(`"no"`), Count: 2}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			onWire(t, func(t *testing.T, w *wire) {
				id, token := w.claim(planOf(""))
				tt.rule.Event = "run:complete"
				w.fail(tt.rule)
				outcome := New(Config{Engine: Func(twoSteps)}).Run(t.Context(), t.Context(), w.socket, claim.Run{ID: id, Token: token}, nil)
				require.NoError(t, outcome.Err)
				require.Equal(t, "success", w.result("r1").Reason)
				require.Empty(t, w.result("r1").FinalState)
			})
		})
	}
}

// Guards against a payload that can never be sent and is tried for ever.
func TestWhatIsNoJSONIsReplacedOrLeftOut(t *testing.T) {
	onWire(t, func(t *testing.T, w *wire) {
		broken := json.RawMessage("not json")
		engine := Func(func(_ context.Context, run *Run) (any, error) {
			run.Log(Line{Message: []json.RawMessage{broken}})
			run.StartStep("a", nil).Complete(StepResult{State: json.RawMessage(`{}`), WebhookResponse: broken, Leaf: true})
			return nil, nil
		})
		outcome := w.run(Config{Engine: engine}, planOf(""))
		require.NoError(t, outcome.Err)
		require.Equal(t, "success", w.result("r1").Reason)
		require.Equal(t, "(this line had 8 bytes, which the server does not take; it was left out)", w.logged("r1")[0])
		require.NotContains(t, w.events("r1", "step:complete")[0], "webhook_response")
	})
}

// Guards against a run that is lost because its error has a name that no frame
// holds: there is nothing to leave out of that.
func TestTheNameOfAnErrorIsCut(t *testing.T) {
	if testing.Short() {
		t.Skip("megabytes of text, which the race detector reads slowly")
	}
	onWire(t, func(t *testing.T, w *wire) {
		long := "E" + strings.Repeat("é", 6<<20)
		engine := Func(func(_ context.Context, run *Run) (any, error) {
			run.StartStep("a", nil).Complete(StepResult{Reason: Fail, ErrorType: long, ThreadID: long, Leaf: true})
			return nil, &Failure{Reason: Crash, Type: long, Message: "m"}
		})
		id, token := w.claim(planOf(""))
		outcome := New(Config{Engine: engine}).Run(t.Context(), t.Context(), w.socket, claim.Run{ID: id, Token: token}, nil)
		require.NoError(t, outcome.Err)
		want := "E" + strings.Repeat("é", 127) // of the 256th byte's there is only half
		require.Equal(t, want, w.result("r1").ErrorType)
		completes := w.events("r1", "step:complete")
		require.Len(t, completes, 1)
		require.Equal(t, []any{want, want}, []any{completes[0]["error_type"], completes[0]["thread_id"]})
	})
}
