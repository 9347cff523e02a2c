package runner

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/claim"
	"github.com/phxworker/phxworker/mockserver"
	"github.com/phxworker/phxworker/mockserver/fault"
	"github.com/phxworker/phxworker/runner/delivery"
)

// Each event of a run meets each fault around it, once and for a stretch of time, and the
// run comes to the same end at the server, each result once.
func TestEveryEventSurvivesEveryFault(t *testing.T) {
	faults := map[string]fault.Rule{
		"dropped before":  {Action: fault.Drop, When: fault.Before},
		"dropped after":   {Action: fault.Drop, When: fault.After},
		"crashed before":  {Action: fault.Crash, When: fault.Before},
		"crashed after":   {Action: fault.Crash, When: fault.After},
		"withheld before": {Action: fault.Withhold, When: fault.Before},
		"withheld after":  {Action: fault.Withhold, When: fault.After},
		"answered late":   {Action: fault.Delay, Delay: time.Minute},
		"answered double": {Action: fault.Double},
		"kicked":          {Action: fault.Close, Code: 1000},
	}
	for _, event := range append([]string{"phx_join", "fetch:plan", "fetch:dataclip", "fetch:credential"}, runEvents...) {
		for name, rule := range faults {
			rule.Event, rule.Run = event, "r1"
			if event == "phx_join" && (rule.Action == fault.Crash || rule.Action == fault.Withhold) {
				continue // a join cannot crash a channel that is not there yet
			}
			if event == "phx_join" {
				rule.Event = fault.Join
				rule.Delay /= 5 // the run's token lasts for little more than the five minutes
			}
			for _, times := range []int{1, -1} {
				t.Run(fmt.Sprintf("%s %s x%d", event, name, times), func(t *testing.T) {
					onWire(t, func(t *testing.T, w *wire) {
						id, token := w.claim(fetching())
						rule.Count = times
						w.fail(rule)
						lifted := time.AfterFunc(25*time.Second, func() { w.server.ClearFaults() })
						defer lifted.Stop()
						r := New(Config{Engine: Func(twoSteps), Limits: Limits{RunTimeout: time.Hour}})
						outcome := r.Run(t.Context(), t.Context(), w.socket, claim.Run{ID: id, Token: token}, nil)
						require.NotEmpty(t, w.server.Faults(), "the fault must have struck")
						w.hasAll(r, outcome)
						w.booksAgree(r, outcome)
						require.JSONEq(t, `{"data":{"x":2}}`, string(w.result("r1").FinalState))
						require.Equal(t, w.events("r1", "step:complete")[1]["output_dataclip_id"], w.result("r1").FinalDataclipID)
					})
				})
			}
		}
	}
}

// What the server refuses, once or for ever, in whichever shape, is told as it is.
func TestTheBooksAgreeOverEveryRefusal(t *testing.T) {
	for _, event := range append([]string{"fetch:plan", "fetch:dataclip", "fetch:credential"}, runEvents...) {
		for _, response := range []string{`{"x":["is invalid"]}`, `{"errors":{"x":["is invalid"]}}`, `"no"`, `{"id":["has already been taken"]}`, `{"state":["already in completed state"]}`} {
			for _, times := range []int{1, 2, -1} {
				t.Run(fmt.Sprintf("%s %s x%d", event, response, times), func(t *testing.T) {
					onWire(t, func(t *testing.T, w *wire) {
						id, token := w.claim(fetching())
						w.fail(fault.Rule{Event: event, Action: fault.Refuse, Response: json.RawMessage(response), Count: times})
						r := New(Config{Engine: Func(twoSteps)})
						w.booksAgree(r, r.Run(t.Context(), t.Context(), w.socket, claim.Run{ID: id, Token: token}, nil))
					})
				})
			}
		}
	}
}

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

// Guards against an event that is lost because a crash by chance, right after the
// connection was lost with its first copy, is taken for the proof that it arrived.
func TestOneCrashOverASecondCopyProvesNothing(t *testing.T) {
	for _, event := range []string{"run:start", "step:start", "run:log", "step:complete", "run:complete"} {
		t.Run(event, func(t *testing.T) {
			onWire(t, func(t *testing.T, w *wire) {
				id, token := w.claim(planOf(""))
				w.fail(fault.Rule{Event: event, Action: fault.Drop, When: fault.Before})
				w.fail(fault.Rule{Event: event, Action: fault.Crash, When: fault.Before})
				require.NoError(t, New(Config{Engine: Func(twoSteps)}).Run(t.Context(), t.Context(), w.socket, claim.Run{ID: id, Token: token}, nil).Err)
				require.Equal(t, "success", w.result("r1").Reason)
				require.JSONEq(t, `{"data":{"x":2}}`, string(w.result("r1").FinalState))
				require.Contains(t, w.logged("r1"), "hello")
				require.Len(t, w.events("r1", "step:start"), 2)
				require.Len(t, w.events("r1", "step:complete"), 2)
			})
		})
	}
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
				r := New(Config{Engine: Func(twoSteps), Delivery: delivery.Config{Spool: dir}})
				outcome := r.Run(t.Context(), t.Context(), w.socket, claim.Run{ID: id, Token: token}, nil)
				require.Error(t, outcome.Err)
				require.Equal(t, Undelivered, outcome.Settled)
				require.Equal(t, map[string]uint64{"run:complete": 1}, r.Stats().Undelivered)
				require.GreaterOrEqual(t, time.Since(begin), w.lifetime(token), "it is tried for as long as the token lives")
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

// Guards against a stampede: a server that is nearly full answers some events and crashes
// over others, so that each answer would send all other runs there at once, and good lines
// would be taken for bad ones.
func TestFiftyRunsThroughAServerThatIsNearlyFull(t *testing.T) {
	onWire(t, func(t *testing.T, w *wire) {
		const runs = 50
		struck := make(chan struct{})
		r := New(Config{Engine: Func(func(_ context.Context, run *Run) (any, error) {
			step := run.StartStep("a", nil)
			<-struck
			step.Log(TextLine("info", "JOB", "line of "+run.ID))
			step.Complete(StepResult{State: json.RawMessage(`{}`), Leaf: true})
			return nil, nil
		})})
		var all sync.WaitGroup
		for i := range runs {
			plan := planOf("")
			plan.Plan = json.RawMessage(fmt.Sprintf(`{"id":"r%d","jobs":[{"id":"a"}]}`, i))
			id, token := w.claim(plan)
			all.Go(func() {
				require.NoError(t, r.Run(t.Context(), t.Context(), w.socket, claim.Run{ID: id, Token: token}, nil).Err)
			})
		}
		synctest.Wait()
		for _, event := range runEvents {
			w.fail(fault.Rule{Event: event, Action: fault.Crash, When: fault.Before, Probability: 0.9})
		}
		close(struck)
		time.Sleep(6 * time.Second)
		crashes := len(w.server.Faults())
		w.server.ClearFaults()
		all.Wait()
		for i := range runs {
			id := fmt.Sprint("r", i)
			require.Equal(t, 1, count(w.logged(id), "line of "+id), id)
		}
		require.Empty(t, r.Stats().Undelivered)
		require.Less(t, crashes, 30*runs)
		t.Logf("%d crashes in 6 s", crashes)
	})
}

// Guards against an end that is called another's because a refusal came between the copy
// that had arrived and the one that tells so.
func TestARefusalInBetweenIsNoProofThatNothingArrived(t *testing.T) {
	onWire(t, func(t *testing.T, w *wire) {
		id, token := w.claim(planOf(""))
		w.fail(fault.Rule{Event: "run:complete", Action: fault.Drop, When: fault.After})
		w.fail(fault.Rule{Event: "run:complete", Action: fault.Refuse, Response: json.RawMessage(`"the database is busy"`)})
		r := New(Config{Engine: Func(twoSteps)})
		w.hasAll(r, r.Run(t.Context(), t.Context(), w.socket, claim.Run{ID: id, Token: token}, nil))
	})
}

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

// Guards against a write that is sent again on a live join: the first copy had
// been applied, and the second gets the worker thrown off the topic. What is later than
// the worker waits is asked for under a new join.
func TestALateReplyOnALiveJoinIsWaitedFor(t *testing.T) {
	for late, joins := range map[time.Duration]int{29 * time.Second: 0, 4 * time.Minute: 1} {
		onWire(t, func(t *testing.T, w *wire) {
			id, token := w.claim(planOf(""))
			w.fail(fault.Rule{Event: "step:complete", Action: fault.Delay, When: fault.After, Delay: late})
			r := New(Config{Engine: Func(twoSteps)})
			w.hasAll(r, r.Run(t.Context(), t.Context(), w.socket, claim.Run{ID: id, Token: token}, nil))
			require.Equal(t, 2+joins, w.pushes("r1", "step:complete"))
			require.Equal(t, uint64(joins), r.Stats().Resent)
		})
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

func TestARejoinTellsTheWebhookResponseAgain(t *testing.T) {
	response := json.RawMessage(`{"status":201,"body":{}}`)
	engine := Func(func(_ context.Context, run *Run) (any, error) {
		a := run.StartStep("a", nil)
		a.Complete(StepResult{State: json.RawMessage(`{}`), WebhookResponse: response})
		for range 2 {
			step := run.StartStep("b", a)
			step.Complete(StepResult{State: json.RawMessage(`{}`), Leaf: true})
		}
		return nil, nil
	})
	onWire(t, func(t *testing.T, w *wire) {
		id, token := w.claim(planOf(""))
		w.fail(fault.Rule{Event: "step:start", Skip: 1, Action: fault.Drop, When: fault.After})
		New(Config{Engine: engine}).Run(t.Context(), t.Context(), w.socket, claim.Run{ID: id, Token: token}, nil)
		steps := w.events("r1", "step:complete")
		require.Len(t, steps, 3)
		require.Contains(t, steps[0], "webhook_response")
		require.Contains(t, steps[1], "webhook_response", "the new join does not know it")
		require.NotContains(t, steps[2], "webhook_response", "once a join is enough")
	})
}

// Guards against a webhook's response that the new join does not have, because it was told
// under the one before.
func TestADuplicateTellsTheNewJoinNoWebhookResponse(t *testing.T) {
	response := json.RawMessage(`{"status":201}`)
	onWire(t, func(t *testing.T, w *wire) {
		id, token := w.claim(planOf(""))
		w.fail(fault.Rule{Event: "step:complete", Action: fault.Drop, When: fault.After})
		New(Config{Engine: Func(func(_ context.Context, run *Run) (any, error) {
			a := run.StartStep("a", nil)
			a.Complete(StepResult{State: json.RawMessage(`{}`), WebhookResponse: response})
			run.StartStep("b", a).Complete(StepResult{State: json.RawMessage(`{}`), Leaf: true})
			return nil, nil
		})}).Run(t.Context(), t.Context(), w.socket, claim.Run{ID: id, Token: token}, nil)
		steps := w.events("r1", "step:complete")
		require.Contains(t, steps[len(steps)-1], "webhook_response")
	})
}

func TestLogLinesAtMostOnce(t *testing.T) {
	for _, once := range []bool{false, true} {
		onWire(t, func(t *testing.T, w *wire) {
			id, token := w.claim(planOf(""))
			w.fail(fault.Rule{Event: "run:log", Action: fault.Drop, When: fault.After})
			New(Config{Engine: Func(twoSteps), Delivery: delivery.Config{LogsAtMostOnce: once}}).Run(t.Context(), t.Context(), w.socket, claim.Run{ID: id, Token: token}, nil)
			want := 2
			if once {
				want = 1
			}
			require.Equal(t, want, strings.Count(strings.Join(w.logged("r1"), "\n"), "hello"))
		})
	}
}

// Guards against the refusal of a rejoin being read as the answer to what was
// pushed under the join before.
func TestARefusedRejoinIsNoAnswerToAPush(t *testing.T) {
	for _, event := range []string{"fetch:plan", "fetch:credential", "run:start", "run:complete"} {
		t.Run(event, func(t *testing.T) {
			onWire(t, func(t *testing.T, w *wire) {
				id, token := w.claim(mockserver.Run{
					Plan:        json.RawMessage(`{"id":"r1","jobs":[{"id":"a","credential":"c"},{"id":"b"}]}`),
					Credentials: map[string]json.RawMessage{"c": json.RawMessage(`{"k":"v"}`)},
				})
				w.fail(fault.Rule{Event: event, Action: fault.Drop, When: fault.Before})
				w.fail(fault.Rule{Event: fault.Join, Run: "r1", Skip: 1, Action: fault.Refuse, Response: json.RawMessage(`{"reason":"not_found"}`)})
				dir := t.TempDir()
				outcome := New(Config{Engine: Func(twoSteps), Delivery: delivery.Config{Spool: dir}}).Run(t.Context(), t.Context(), w.socket, claim.Run{ID: id, Token: token}, nil)
				require.ErrorContains(t, outcome.Err, "not_found")
				require.NotContains(t, outcome.Message, "Failed to load")
				spooled, err := readSpool(dir)
				require.NoError(t, err)
				require.Len(t, spooled, 1)
				if event[:4] == "run:" {
					names := make([]string, 0, len(spooled[0].Events))
					for _, e := range spooled[0].Events {
						names = append(names, e.Event)
					}
					require.Contains(t, names, event, "what was not delivered is in the spool")
				} else {
					require.Equal(t, "TopicLost", outcome.Type)
				}
			})
		})
	}
}
