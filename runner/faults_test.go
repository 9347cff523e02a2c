package runner

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/claim"
	"github.com/phxworker/phxworker/mockserver"
	"github.com/phxworker/phxworker/mockserver/fault"
)

// fail makes the server misbehave.
func (w *wire) fail(r fault.Rule) {
	w.t.Helper()
	_, err := w.server.AddFault(r)
	require.NoError(w.t, err)
}

// pushes returns how often the event came, whatever became of it.
func (w *wire) pushes(id, name string) int {
	w.t.Helper()
	record, ok := w.server.Inspect(id)
	require.True(w.t, ok)
	n := 0
	for _, e := range record.Events {
		if e.Event == name {
			n++
		}
	}
	return n
}

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

// fetching is a run of which there is everything to fetch.
func fetching() mockserver.Run {
	return mockserver.Run{
		Plan:        json.RawMessage(`{"id":"r1","dataclip_id":"d","jobs":[{"id":"a","credential":"c"},{"id":"b"}]}`),
		Dataclip:    json.RawMessage(`{"data":{}}`),
		Credentials: map[string]json.RawMessage{"c": json.RawMessage(`{"k":"v"}`)},
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

// booksAgree holds what the worker says of a run of twoSteps to what the server has: each
// event was acknowledged or is counted as undelivered by its name, and the run is
// processed only if its end is there.
func (w *wire) booksAgree(r *Runner, outcome Outcome) {
	w.t.Helper()
	has := make(map[string]int)
	for _, event := range runEvents {
		distinct := make(map[string]bool)
		for _, e := range w.events("r1", event) {
			if e["level"] != "warn" { // such a line is the worker's own, about what it had to leave out
				distinct[fmt.Sprint(e["step_id"], e["message"], e["reason"])] = true
			}
		}
		has[event] = len(distinct)
	}
	if outcome.Settled == Processed {
		require.Equal(w.t, string(outcome.Reason), w.result("r1").Reason)
	}
	made := map[string]int{"run:start": 1, "step:start": 2, "run:log": 2, "step:complete": 2, "run:complete": 1}
	if outcome.Reason == Exception { // something could not be fetched
		made = map[string]int{"run:log": 2, "run:complete": 1}
	}
	for _, event := range runEvents {
		undelivered := int(r.Stats().Undelivered[event])
		require.Equal(w.t, made[event], has[event]+undelivered, "%s: %d at the server, %d undelivered", event, has[event], undelivered)
	}
	require.Equal(w.t, has["run:complete"] == 1, outcome.Settled == Processed && outcome.Err == nil, "%v", outcome)
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

// Guards against a plan that is lost with its reply, and the run with it.
func TestAPlanThatIsWithheldIsReadAgain(t *testing.T) {
	onWire(t, func(t *testing.T, w *wire) {
		id, token := w.claim(planOf(""))
		w.fail(fault.Rule{Event: "fetch:plan", Action: fault.Withhold, Count: 2})
		require.NoError(t, New(Config{Engine: Func(success)}).Run(t.Context(), t.Context(), w.socket, claim.Run{ID: id, Token: token}, nil).Err)
		require.Equal(t, 3, w.pushes("r1", "fetch:plan"))
	})
}

// Guards against a second read of an input under an erase-all policy: it is
// empty, and the run must not go ahead on that silently.
func TestAnInputThatWasErasedByALostReadEndsTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire(t, mockserver.Config{WipeDataclips: true})
		run := planOf(`,"dataclip_id":"d"`)
		run.Dataclip = json.RawMessage(`{"data":{"patient":1}}`)
		id, token := w.claim(run)
		w.fail(fault.Rule{Event: "fetch:dataclip", Action: fault.Drop, When: fault.After})
		executed := false
		New(Config{Engine: Func(func(context.Context, *Run) (any, error) {
			executed = true
			return nil, nil
		})}).Run(t.Context(), t.Context(), w.socket, claim.Run{ID: id, Token: token}, nil)
		require.False(t, executed)
		require.Equal(t, []string{"exception", "DataClipError"}, []string{w.result("r1").Reason, w.result("r1").ErrorType})
	})
}

func TestARejoinFetchesTheCredentialsAgain(t *testing.T) {
	onWire(t, func(t *testing.T, w *wire) {
		id, token := w.claim(mockserver.Run{
			Plan:        json.RawMessage(`{"id":"r1","jobs":[{"id":"a","credential":"c"},{"id":"b"}]}`),
			Credentials: map[string]json.RawMessage{"c": json.RawMessage(`{"k":"v"}`)},
		})
		w.fail(fault.Rule{Event: "step:start", Action: fault.Drop, When: fault.After})
		New(Config{Engine: Func(twoSteps)}).Run(t.Context(), t.Context(), w.socket, claim.Run{ID: id, Token: token}, nil)
		require.Equal(t, 2, w.pushes("r1", "fetch:credential"), "the server's scrubber forgets them with the join")
		names := w.names("r1")
		require.Equal(t, []string{"step:start", "fetch:credential", "step:start"}, names[3:6], "before anything else of the new join: %v", names)
	})
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

func TestLogLinesAtMostOnce(t *testing.T) {
	for _, once := range []bool{false, true} {
		onWire(t, func(t *testing.T, w *wire) {
			id, token := w.claim(planOf(""))
			w.fail(fault.Rule{Event: "run:log", Action: fault.Drop, When: fault.After})
			New(Config{Engine: Func(twoSteps), LogsAtMostOnce: once}).Run(t.Context(), t.Context(), w.socket, claim.Run{ID: id, Token: token}, nil)
			want := 2
			if once {
				want = 1
			}
			require.Equal(t, want, strings.Count(strings.Join(w.logged("r1"), "\n"), "hello"))
		})
	}
}

// Guards against a rejoin that is tried for ever: nobody will let this run in
// again.
func TestARunThatIsRefusedOnRejoinIsGivenUpAndSpooled(t *testing.T) {
	onWire(t, func(t *testing.T, w *wire) {
		dir := t.TempDir()
		id, token := w.claim(planOf(""))
		w.fail(fault.Rule{Event: "step:complete", Action: fault.Drop, When: fault.Before})
		w.fail(fault.Rule{Event: fault.Join, Run: "r1", Skip: 1, Action: fault.Refuse, Response: json.RawMessage(`{"reason":"unauthorized"}`), Count: -1})
		outcome := New(Config{Engine: Func(twoSteps), Spool: dir}).Run(t.Context(), t.Context(), w.socket, claim.Run{ID: id, Token: token}, nil)
		require.ErrorContains(t, outcome.Err, "unauthorized")

		all, err := readSpool(dir)
		require.NoError(t, err)
		require.Len(t, all, 1)
		require.Equal(t, []string{"r1", token}, []string{all[0].RunID, all[0].Token})
		require.Equal(t, "step:complete", all[0].Events[0].Event)
		require.Equal(t, "run:complete", all[0].Events[len(all[0].Events)-1].Event)
		info, err := os.Stat(filepath.Join(dir, "r1.json"))
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode().Perm(), "it holds a token")

		w.server.ClearFaults() // the server has changed its mind
		require.NoError(t, all[0].Resend(t.Context(), w.socket))
		require.Equal(t, "success", w.result("r1").Reason)
		require.NoFileExists(t, all[0].Path)
	})
}
