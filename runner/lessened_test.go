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
	"github.com/phxworker/phxworker/runner/delivery"
)

// Guards against an event that takes the connection down whenever it is sent, and
// with it every other run of the worker, until the run's token ends.
func TestAnEventThatTheConnectionDoesNotBearIsLessened(t *testing.T) {
	onWire(t, func(t *testing.T, w *wire) {
		id, token := w.claim(planOf(`,"options":{"run_timeout_ms":36000000}`))
		w.fail(fault.Rule{Event: "run:log", Action: fault.Drop, When: fault.Before, Count: 2 * 12})
		w.fail(fault.Rule{Event: "step:complete", Action: fault.Drop, When: fault.Before, Count: 3 * 12})
		w.fail(fault.Rule{Event: "run:complete", Action: fault.Drop, When: fault.Before, Count: 2 * 12})
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
			require.NoError(t, w.run(Config{Engine: engine, Delivery: delivery.Config{NativeDataclips: native}}, planOf("")).Err)
			require.Equal(t, native, w.events("r1", "step:complete")[0]["output_dataclip"] != nil)
		})
	}
}

// A version that does not take the form gets the other, and from then on that alone.
func TestTheFormOfOutputsAgainstEachVersion(t *testing.T) {
	for form, refused := range map[mockserver.Dataclips][]int{ // texts, objects
		mockserver.EitherDataclips: {0, 0}, mockserver.ObjectDataclips: {1, 0}, mockserver.TextDataclips: {0, 1},
	} {
		for i, native := range []bool{false, true} {
			t.Run(fmt.Sprintf("%v native=%v", form, native), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newWire(t, mockserver.Config{Dataclips: form})
					require.NoError(t, w.run(Config{Engine: Func(twoSteps), Delivery: delivery.Config{NativeDataclips: native}}, planOf("")).Err)
					require.Equal(t, "success", w.result("r1").Reason)
					for _, step := range w.events("r1", "step:complete") {
						require.NotNil(t, step["output_dataclip"])
					}
					require.Equal(t, refused[i], w.pushes("r1", "step:complete")-2)
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
		complete := w.events("r1", "step:complete")[0]
		require.NotContains(t, complete, "webhook_response")
		require.Equal(t, "{}", complete["output_dataclip"], "nothing is wrong with that")
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

// Guards against the loss of the last copy of an output over a dataclip that the server
// does not know.
func TestTheFinalDataclipGoesBeforeTheFinalState(t *testing.T) {
	for _, response := range []string{`{"final_dataclip_id":["does not exist"]}`, `{"errors":{"final_dataclip_id":["does not exist"]}}`} {
		onWire(t, func(t *testing.T, w *wire) {
			id, token := w.claim(planOf(""))
			w.fail(fault.Rule{Event: "run:complete", Action: fault.Refuse, Response: json.RawMessage(response)})
			outcome := New(Config{Engine: Func(twoSteps)}).Run(t.Context(), t.Context(), w.socket, claim.Run{ID: id, Token: token}, nil)
			require.NoError(t, outcome.Err)
			require.JSONEq(t, `{"data":{"x":2}}`, string(w.result("r1").FinalState))
			require.Empty(t, w.result("r1").FinalDataclipID)
		})
	}
}

// Guards against an output that goes with a webhook's response that the server does not
// take, and the other way round.
func TestOnlyWhatARefusalNamesIsLeftOut(t *testing.T) {
	onWire(t, func(t *testing.T, w *wire) {
		id, token := w.claim(planOf(""))
		w.fail(fault.Rule{Event: "step:complete", Action: fault.Refuse, Response: json.RawMessage(`{"webhook_response":["is invalid"]}`)})
		w.fail(fault.Rule{Event: "step:complete", Skip: 1, Action: fault.Refuse, Response: json.RawMessage(`{"output_dataclip":["is invalid"]}`), Count: 2}) // in both forms
		response := json.RawMessage(`{"status":201}`)
		New(Config{Engine: Func(func(_ context.Context, run *Run) (any, error) {
			a := run.StartStep("a", nil)
			a.Complete(StepResult{State: json.RawMessage(`{}`), WebhookResponse: response})
			b := run.StartStep("b", a)
			b.Complete(StepResult{State: json.RawMessage(`{}`), WebhookResponse: response, Leaf: true})
			return nil, nil
		})}).Run(t.Context(), t.Context(), w.socket, claim.Run{ID: id, Token: token}, nil)
		steps := w.events("r1", "step:complete")
		require.Len(t, steps, 2)
		require.NotContains(t, steps[0], "webhook_response")
		require.Equal(t, "{}", steps[0]["output_dataclip"])
		require.Contains(t, steps[1], "webhook_response")
		require.Equal(t, "DATACLIP_TOO_LARGE", steps[1]["output_dataclip_error"])
	})
}

func TestAnOutputOverTheLimitIsReportedAsSuch(t *testing.T) {
	onWire(t, func(t *testing.T, w *wire) {
		engine := Func(func(_ context.Context, run *Run) (any, error) {
			a := run.StartStep("a", nil)
			big := json.RawMessage(`{"data":"` + strings.Repeat("x", 3000) + `","small":1}`)
			a.Complete(StepResult{State: big})
			run.StartStep("b", a).Complete(StepResult{State: big, Leaf: true})
			return big, nil
		})
		w.run(Config{Engine: engine}, planOf(`,"options":{"payload_limit_mb":0.002}`))
		step := w.events("r1", "step:complete")[0]
		require.Equal(t, "DATACLIP_TOO_LARGE", step["output_dataclip_error"])
		require.NotContains(t, step, "output_dataclip")
		require.NotContains(t, step, "output_dataclip_id")
		require.NotContains(t, w.events("r1", "step:start")[1], "input_dataclip_id")
		require.JSONEq(t, `{"data":"[REDACTED]","small":1}`, string(w.result("r1").FinalState))
		require.Empty(t, w.result("r1").FinalDataclipID)
	})
}

func TestALineOverTheLimitIsReplacedByANote(t *testing.T) {
	onWire(t, func(t *testing.T, w *wire) {
		engine := Func(func(_ context.Context, run *Run) (any, error) {
			run.Print(strings.Repeat("x", 3000))
			return nil, nil
		})
		w.run(Config{Engine: engine}, planOf(`,"options":{"log_payload_limit_mb":0.002}`))
		require.Equal(t, "(this line had 3002 bytes, over the limit of 0.002mb; it was left out)", w.logged("r1")[0])
	})
}

func TestDataclipsCanBeWithheld(t *testing.T) {
	onWire(t, func(t *testing.T, w *wire) {
		w.run(Config{Engine: Func(twoSteps)}, planOf(`,"options":{"output_dataclips":false}`))
		step := w.events("r1", "step:complete")[0]
		require.NotContains(t, step, "output_dataclip")
		require.NotEmpty(t, step["output_dataclip_id"])
	})
}

// Guards against a run that ends with 42 and is lost for it (lightning#4627).
func TestAFinalStateThatIsNoObjectIsWrapped(t *testing.T) {
	onWire(t, func(t *testing.T, w *wire) {
		w.run(Config{Engine: Func(func(context.Context, *Run) (any, error) { return 42, nil })}, planOf(""))
		require.JSONEq(t, `{"value":42}`, string(w.result("r1").FinalState))
	})
}

// Guards against a result that nobody gets to see and that is called a success.
func TestAFinalStateOverTheLimitIsNoSuccess(t *testing.T) {
	big := func() json.RawMessage { return json.RawMessage(`"` + strings.Repeat("x", 3000) + `"`) }
	for name, state := range map[string]json.RawMessage{
		"data": json.RawMessage(`{"data":` + string(big()) + `}`), "another key": json.RawMessage(`{"other":` + string(big()) + `}`), "no object": big(),
	} {
		t.Run(name, func(t *testing.T) {
			onWire(t, func(t *testing.T, w *wire) {
				outcome := w.run(Config{Engine: Func(func(context.Context, *Run) (any, error) { return state, nil })}, planOf(`,"options":{"payload_limit_mb":0.002}`))
				require.NoError(t, outcome.Err)
				require.Equal(t, []string{"fail", "FinalStateTooLarge"}, []string{w.result("r1").Reason, w.result("r1").ErrorType})
				require.LessOrEqual(t, len(w.result("r1").FinalState), 2100)
				require.Contains(t, strings.Join(w.logged("r1"), "\n"), "over the payload limit of 0.002mb")
			})
			onWire(t, func(t *testing.T, w *wire) {
				outcome := w.run(Config{Engine: Func(func(_ context.Context, run *Run) (any, error) {
					run.StartStep("a", nil).Complete(StepResult{State: state, Leaf: true})
					return state, nil
				})}, planOf(`,"options":{"payload_limit_mb":0.002}`))
				require.NoError(t, outcome.Err)
				require.Equal(t, "success", w.result("r1").Reason)
				require.Equal(t, "DATACLIP_TOO_LARGE", w.events("r1", "step:complete")[0]["output_dataclip_error"])
				require.NotEmpty(t, w.result("r1").FinalState, "as with OpenFn's worker, which takes out the data alone")
				require.Contains(t, strings.Join(w.logged("r1"), "\n"), "over the payload limit of 0.002mb")
			})
		})
	}
}

// Lightning's database cannot store U+0000, and its channel crashes over it.
func TestNULsAreReplaced(t *testing.T) {
	onWire(t, func(t *testing.T, w *wire) {
		state := json.RawMessage(`{"k\u0000ey":"a\u0000b","\\u0000":"\\\\u0000\u0000"}`)
		want := "{\"k\uFFFDey\":\"a\uFFFDb\",\"\\\\u0000\":\"\\\\\\\\u0000\uFFFD\"}"
		id, token := w.claim(planOf(""))
		New(Config{Engine: Func(func(_ context.Context, run *Run) (any, error) {
			run.Print("l\x00g")
			step := run.StartStep("a", nil)
			step.Log(Line{Level: "info", Source: "J\x00B", Message: []json.RawMessage{json.RawMessage(`{"\u0000":[" \u0000"]}`)}})
			step.Complete(StepResult{Reason: Fail, ErrorType: "T\x00", ErrorMessage: "m\x00", State: state, ThreadID: "t\x00", WebhookResponse: json.RawMessage(`{"body":"\u0000"}`), Leaf: true})
			return state, &Failure{Reason: Fail, Type: "T\x00", Message: "m\x00"}
		})}).Run(t.Context(), t.Context(), w.socket, claim.Run{ID: id, Token: token}, nil)
		result := w.result("r1")
		require.Equal(t, []string{"T\uFFFD", "m\uFFFD"}, []string{result.ErrorType, result.ErrorMessage})
		require.Equal(t, want, string(result.FinalState))
		step := w.events("r1", "step:complete")[0]
		require.Equal(t, want, step["output_dataclip"])
		require.Equal(t, []any{"T\uFFFD", "m\uFFFD", "t\uFFFD", map[string]any{"body": "\uFFFD"}}, []any{step["error_type"], step["error_message"], step["thread_id"], step["webhook_response"]})
		require.Contains(t, w.logged("r1"), "l\uFFFDg")
		require.Contains(t, w.logged("r1"), "map[\uFFFD:[ \uFFFD]]")
		record, _ := w.server.Inspect("r1")
		for _, e := range record.Events {
			require.Equal(t, "ok", e.Status, "%s %s", e.Event, e.Crash)
		}
	})
}

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

// The steps of a run that branches: a, then b and c, which end it. Each leaves what of returns for it.
func branches(of func(id string) string) Func {
	return func(_ context.Context, run *Run) (any, error) {
		state := func(id string) json.RawMessage { return json.RawMessage(of(id)) }
		a := run.StartStep("a", nil)
		a.Complete(StepResult{State: state("a")})
		for _, id := range []string{"b", "c"} {
			run.StartStep("b", a).Complete(StepResult{State: state(id), Leaf: true})
		}
		return map[string]any{"b": state("b"), "c": state("c")}, nil
	}
}

// Guards against a channel that crashes over a text which is no JSON (lightning#5098), and against
// 12 MB for a state of 9.
func TestOutputsGoNativelyAsObjectsOnly(t *testing.T) {
	for state, want := range map[string]string{
		`{"a":"\"quoted\""}`: `{"a":"\"quoted\""}`, `"a text"`: `{"value":"a text"}`, `42`: `{"value":42}`, `null`: `{"value":null}`, `[1]`: `{"value":[1]}`, ``: `{}`,
	} {
		onWire(t, func(t *testing.T, w *wire) {
			engine := Func(func(_ context.Context, run *Run) (any, error) {
				run.StartStep("a", nil).Complete(StepResult{State: json.RawMessage(state), Leaf: true})
				return nil, nil
			})
			w.run(Config{Engine: engine, Delivery: delivery.Config{NativeDataclips: true}}, planOf(""))
			output, err := json.Marshal(w.events("r1", "step:complete")[0]["output_dataclip"])
			require.NoError(t, err)
			require.JSONEq(t, want, string(output))
		})
	}
}

func TestTheSizeOfADataclipIsTold(t *testing.T) {
	onWire(t, func(t *testing.T, w *wire) {
		w.run(Config{Engine: branches(func(string) string { return `{"data":"` + strings.Repeat("x", 3000) + `"}` })}, planOf(`,"options":{"payload_limit_mb":0.002}`))
		step := w.events("r1", "step:complete")[0]
		require.Equal(t, "DATACLIP_TOO_LARGE", step["output_dataclip_error"])
		require.Equal(t, "0.00287", step["dataclip_size_mb"], "also of one that is not sent")
	})
}

// Guards against the states of all leafs in an event that is said to be without its data (kit#1517).
func TestAFinalStateOfSeveralLeafsOverTheLimitIsWithheldWhole(t *testing.T) {
	onWire(t, func(t *testing.T, w *wire) {
		engine := branches(func(id string) string { return `{"data":"` + strings.Repeat(id, 1500) + `"}` })
		w.run(Config{Engine: engine}, planOf(`,"options":{"payload_limit_mb":0.002}`))
		require.Empty(t, w.result("r1").FinalState)
		require.Equal(t, "success", w.result("r1").Reason)
		require.Contains(t, strings.Join(w.logged("r1"), "\n"), "over the payload limit of 0.002mb: it was not sent")
		require.NotEmpty(t, w.events("r1", "step:complete")[1]["output_dataclip"], "each of them is under it")
	})
}

func TestALimitOfNothingWithholdsEverything(t *testing.T) {
	for _, options := range []string{`,"options":{"payload_limit_mb":0,"log_payload_limit_mb":0}`, ""} {
		onWire(t, func(t *testing.T, w *wire) {
			var limits Limits
			if options == "" {
				limits = Limits{PayloadMB: -1, LogPayloadMB: -1}
			}
			outcome := w.run(Config{Engine: Func(func(ctx context.Context, run *Run) (any, error) {
				run.Print("a patient's name")
				return twoSteps(ctx, run)
			}), Limits: limits}, planOf(options))
			require.NoError(t, outcome.Err)
			require.Equal(t, "success", w.result("r1").Reason)
			require.Empty(t, w.result("r1").FinalState)
			for _, step := range w.events("r1", "step:complete") {
				require.Equal(t, "DATACLIP_TOO_LARGE", step["output_dataclip_error"])
				require.NotContains(t, step, "output_dataclip")
			}
			require.NotContains(t, strings.Join(w.logged("r1"), "\n"), "patient")
		})
	}
	onWire(t, func(t *testing.T, w *wire) { // a run without steps
		w.run(Config{Engine: Func(func(context.Context, *Run) (any, error) { return 42, nil }), Limits: Limits{PayloadMB: -1}}, planOf(""))
		require.Equal(t, "success", w.result("r1").Reason)
		require.Empty(t, w.result("r1").FinalState)
	})
}
