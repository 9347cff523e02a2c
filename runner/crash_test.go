package runner

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/claim"
	"github.com/phxworker/phxworker/mockserver"
	"github.com/phxworker/phxworker/mockserver/fault"
)

var runEvents = []string{"run:start", "step:start", "run:log", "step:complete", "run:complete"}

// Guards against a crash that is taken for a receipt: nothing of an event that crashed the
// channel each time it came is at the server.
func TestACrashIsNoReceipt(t *testing.T) {
	for _, when := range []fault.When{fault.Before, fault.After} {
		for _, event := range runEvents {
			for _, times := range []int{2, 3, 7} {
				t.Run(fmt.Sprintf("%s %s x%d", event, when, times), func(t *testing.T) {
					onWire(t, func(t *testing.T, w *wire) {
						id, token := w.claim(planOf(""))
						w.fail(fault.Rule{Event: event, Action: fault.Crash, When: when, Count: times})
						r := New(Config{Engine: Func(twoSteps)})
						outcome := r.Run(t.Context(), t.Context(), w.socket, claim.Run{ID: id, Token: token}, nil)
						w.hasAll(r, outcome)
						require.JSONEq(t, `{"data":{"x":2}}`, string(w.result("r1").FinalState))
						require.Equal(t, w.events("r1", "step:complete")[1]["output_dataclip_id"], w.result("r1").FinalDataclipID)
					})
				})
			}
		}
	}
}

// hasAll asserts that the server has a whole run of twoSteps, and that the worker says so.
func (w *wire) hasAll(r *Runner, outcome Outcome) {
	w.t.Helper()
	require.NoError(w.t, outcome.Err)
	require.Equal(w.t, Processed, outcome.Settled)
	require.Equal(w.t, string(outcome.Reason), w.result("r1").Reason)
	require.Equal(w.t, "success", w.result("r1").Reason)
	require.NotEmpty(w.t, w.events("r1", "run:start"))
	require.Len(w.t, w.events("r1", "step:start"), 2)
	require.Len(w.t, w.events("r1", "run:complete"), 1)
	require.Contains(w.t, w.logged("r1"), "hello")
	for _, step := range w.events("r1", "step:complete") {
		require.NotEmpty(w.t, step["output_dataclip"])
	}
	require.Len(w.t, w.events("r1", "step:complete"), 2)
	require.Empty(w.t, r.Stats().Undelivered)
}

// Guards against a run that says "processed" though the server never heard of its end.
func TestAnEndThatAlwaysCrashesIsUndelivered(t *testing.T) {
	for _, action := range []fault.Action{fault.Crash, fault.Withhold} {
		t.Run(string(action), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newSigningWire(t, mockserver.Config{})
				dir := t.TempDir()
				begin := time.Now()
				id, token := w.claim(planOf(""))
				w.fail(fault.Rule{Event: "run:complete", Action: action, When: fault.Before, Count: -1})
				r := New(Config{Engine: Func(twoSteps), Spool: dir})
				outcome := r.Run(t.Context(), t.Context(), w.socket, claim.Run{ID: id, Token: token}, nil)
				require.Error(t, outcome.Err)
				require.Equal(t, Undelivered, outcome.Settled)
				require.Equal(t, map[string]uint64{"run:complete": 1}, r.Stats().Undelivered)
				require.GreaterOrEqual(t, time.Since(begin), lifetime(token), "it is tried for as long as the token lives")
				spooled, err := readSpool(dir)
				require.NoError(t, err)
				require.Len(t, spooled, 1)
				require.Len(t, spooled[0].Events, 1)
				pushes := 0
				for _, f := range w.server.Faults() {
					pushes += strings.Count(string(f.Action), string(action))
				}
				require.Less(t, pushes, 60, "slower and slower")
			})
		})
	}
}

// A full database pool: for 6 seconds every event of every run crashes its channel, while
// joins work. Nothing is lost over it, and the runs end soon after.
func TestFiftyRunsThroughSixSecondsOfCrashes(t *testing.T) {
	onWire(t, func(t *testing.T, w *wire) {
		const runs = 50
		struck := make(chan struct{})
		r := New(Config{Engine: Func(func(_ context.Context, run *Run) (any, error) {
			step := run.StartStep("a", nil)
			<-struck
			step.Log(TextLine("info", "JOB", "line of "+run.ID))
			state := json.RawMessage(`{"of":"` + run.ID + `"}`)
			step.Complete(StepResult{State: state, Leaf: true})
			return state, nil
		})})
		var begin time.Time
		var took time.Duration
		var all sync.WaitGroup
		for i := range runs {
			plan := planOf("")
			plan.Plan = json.RawMessage(fmt.Sprintf(`{"id":"r%d","jobs":[{"id":"a"}]}`, i))
			id, token := w.claim(plan)
			all.Go(func() {
				outcome := r.Run(t.Context(), t.Context(), w.socket, claim.Run{ID: id, Token: token}, nil)
				require.NoError(t, outcome.Err)
				require.Equal(t, Processed, outcome.Settled)
			})
		}
		synctest.Wait()
		for _, event := range runEvents {
			w.fail(fault.Rule{Event: event, Action: fault.Crash, When: fault.Before, Count: -1})
		}
		begin = time.Now()
		close(struck)
		time.Sleep(6 * time.Second)
		w.server.ClearFaults()
		all.Wait()
		took = time.Since(begin)
		for i := range runs {
			id := fmt.Sprint("r", i)
			require.Equal(t, 1, count(w.logged(id), "line of "+id), id)
			require.Len(t, w.events(id, "step:complete"), 1)
			require.Equal(t, `{"of":"`+id+`"}`, w.events(id, "step:complete")[0]["output_dataclip"])
			require.JSONEq(t, `{"of":"`+id+`"}`, string(w.result(id).FinalState))
			require.NotEmpty(t, w.result(id).FinalDataclipID)
		}
		require.Empty(t, r.Stats().Undelivered)
		require.Less(t, took, 20*time.Second)
		t.Logf("the last run ended %v after the crashes began", took.Round(time.Millisecond))
	})
}

func count(list []string, of string) int {
	return len(slices.DeleteFunc(slices.Clone(list), func(s string) bool { return s != of }))
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
		w.fail(fault.Rule{Event: "step:complete", Skip: 1, Action: fault.Refuse, Response: json.RawMessage(`{"output_dataclip":["is invalid"]}`)})
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

// Guards against an end that is never reported because something that only the server's
// scrubber needs cannot be had.
func TestCredentialsThatCannotBeFetchedAgainHoldNothingUp(t *testing.T) {
	for _, action := range []fault.Action{fault.Crash, fault.Withhold, fault.Refuse} {
		t.Run(string(action), func(t *testing.T) {
			onWire(t, func(t *testing.T, w *wire) {
				id, token := w.claim(mockserver.Run{
					Plan:        json.RawMessage(`{"id":"r1","jobs":[{"id":"a","credential":"c"},{"id":"b"}]}`),
					Credentials: map[string]json.RawMessage{"c": json.RawMessage(`{"k":"value of c"}`)},
				})
				rule := fault.Rule{Event: "fetch:credential", Skip: 1, Action: action, Count: -1}
				if action == fault.Refuse {
					rule.Response = json.RawMessage(`"no"`)
				}
				w.fail(rule)
				w.fail(fault.Rule{Event: "step:start", Action: fault.Drop, When: fault.After})
				begin := time.Now()
				r := New(Config{Engine: Func(twoSteps)})
				outcome := r.Run(t.Context(), t.Context(), w.socket, claim.Run{ID: id, Token: token}, nil)
				w.hasAll(r, outcome)
				require.Less(t, time.Since(begin), time.Minute)
			})
		})
	}
}

// Guards against a slot that is held for as long as a token lives by something that can
// never be fetched.
func TestAFetchThatAlwaysFailsEndsTheRun(t *testing.T) {
	for _, event := range []string{"fetch:plan", "fetch:dataclip", "fetch:credential"} {
		for _, rule := range []fault.Rule{{Action: fault.Crash, When: fault.Before}, {Action: fault.Crash, When: fault.After}, {Action: fault.Withhold}} {
			t.Run(fmt.Sprint(event, " ", rule.Action, " ", rule.When), func(t *testing.T) {
				onWire(t, func(t *testing.T, w *wire) {
					id, token := w.claim(mockserver.Run{
						Plan:        json.RawMessage(`{"id":"r1","dataclip_id":"d","jobs":[{"id":"a","credential":"c"},{"id":"b"}]}`),
						Dataclip:    json.RawMessage(`{}`),
						Credentials: map[string]json.RawMessage{"c": json.RawMessage(`{}`)},
					})
					rule.Event, rule.Count = event, -1
					w.fail(rule)
					begin := time.Now()
					r := New(Config{Engine: Func(twoSteps)})
					outcome := r.Run(t.Context(), t.Context(), w.socket, claim.Run{ID: id, Token: token}, nil)
					require.NoError(t, outcome.Err)
					require.Equal(t, "exception", w.result("r1").Reason)
					require.Contains(t, w.result("r1").ErrorMessage, event)
					require.Less(t, time.Since(begin), 10*time.Minute)
					require.GreaterOrEqual(t, time.Since(begin), crashesFor, "not given up at the first hitch")
				})
			})
		}
	}
}

// Guards against a slot that is held by an answer that will never come.
func TestAReplyThatNeverComesFreesTheSlotWithinAMinute(t *testing.T) {
	for _, when := range []fault.When{fault.Before, fault.After} {
		for _, event := range append([]string{"fetch:plan", "fetch:credential"}, runEvents...) {
			t.Run(fmt.Sprint(event, " ", when), func(t *testing.T) {
				onWire(t, func(t *testing.T, w *wire) {
					id, token := w.claim(mockserver.Run{
						Plan:        json.RawMessage(`{"id":"r1","jobs":[{"id":"a","credential":"c"},{"id":"b"}]}`),
						Credentials: map[string]json.RawMessage{"c": json.RawMessage(`{}`)},
					})
					w.fail(fault.Rule{Event: event, Action: fault.Withhold, When: when})
					begin := time.Now()
					r := New(Config{Engine: Func(twoSteps)})
					outcome := r.Run(t.Context(), t.Context(), w.socket, claim.Run{ID: id, Token: token}, nil)
					w.hasAll(r, outcome)
					require.Len(t, w.server.Faults(), 1)
					require.Less(t, time.Since(begin), time.Minute)
				})
			})
		}
	}
}

// Guards against a step that the server takes for never ended because its run was
// cancelled while the outbox was full.
func TestAFullOutboxDropsNoStep(t *testing.T) {
	ends := map[string]func(cancel func(error)){
		"cancelled": func(cancel func(error)) { cancel(Cancellation("enough")) },
		"stopped":   func(cancel func(error)) { cancel(nil) },
		"timed out": func(func(error)) { time.Sleep(time.Minute) },
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			onWire(t, func(t *testing.T, w *wire) {
				id, token := w.claim(planOf(`,"options":{"run_timeout_ms":5000}`))
				w.fail(fault.Rule{Event: "run:start", Action: fault.Delay, Delay: 10 * time.Second})
				work, cancel := context.WithCancelCause(t.Context())
				engine := Func(func(ctx context.Context, run *Run) (any, error) {
					a := run.StartStep("a", nil)
					for range 5 {
						a.Log(TextLine("info", "JOB", strings.Repeat("x", 1000)))
					}
					a.Complete(StepResult{State: json.RawMessage(`{"a":1}`)})
					b := run.StartStep("b", a)
					b.Complete(StepResult{State: json.RawMessage(`{"b":1}`), Leaf: true})
					return nil, context.Cause(ctx)
				})
				r := New(Config{Engine: engine, OutboxBytes: 3000})
				done := make(chan Outcome)
				go func() { done <- r.Run(work, t.Context(), w.socket, claim.Run{ID: id, Token: token}, nil) }()
				synctest.Wait()
				end(cancel)
				outcome := <-done
				require.NoError(t, outcome.Err)
				require.Len(t, w.events("r1", "step:start"), 2)
				completes := w.events("r1", "step:complete")
				require.Len(t, completes, 2)
				require.Equal(t, []any{`{"a":1}`, `{"b":1}`}, []any{completes[0]["output_dataclip"], completes[1]["output_dataclip"]})
				lines := count(w.logged("r1"), strings.Repeat("x", 1000))
				require.Equal(t, uint64(5-lines), r.Stats().Undelivered["run:log"], "what was not taken is counted")
			})
		})
	}
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

// Guards against an end that is taken for this worker's though the server has another.
func TestAnEndThatIsThereAlreadyIsAnothersUnlessOursWasSent(t *testing.T) {
	already := json.RawMessage(`{"errors":{"state":["already in completed state"]}}`)
	for _, sent := range []bool{false, true} {
		onWire(t, func(t *testing.T, w *wire) {
			id, token := w.claim(planOf(""))
			if sent {
				w.fail(fault.Rule{Event: "run:complete", Action: fault.Drop, When: fault.After})
			} else {
				w.fail(fault.Rule{Event: "run:complete", Action: fault.Refuse, Response: already, Count: -1})
			}
			r := New(Config{Engine: Func(twoSteps)})
			outcome := r.Run(t.Context(), t.Context(), w.socket, claim.Run{ID: id, Token: token}, nil)
			if sent {
				w.hasAll(r, outcome)
				return
			}
			require.Error(t, outcome.Err)
			require.Equal(t, Undelivered, outcome.Settled)
			require.Equal(t, map[string]uint64{"run:complete": 1}, r.Stats().Undelivered)
			require.Len(t, w.server.Faults(), 1, "there is no use in another try")
		})
	}
}
