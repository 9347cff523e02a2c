package runner

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/claim"
	"github.com/phxworker/phxworker/mockserver"
	"github.com/phxworker/phxworker/mockserver/fault"
	"github.com/phxworker/phxworker/runner/delivery"
	"github.com/phxworker/phxworker/runner/terms"
)

func TestAStepsInputIsTheOutputItWasGiven(t *testing.T) {
	onWire(t, func(t *testing.T, w *wire) {
		run := planOf(`,"dataclip_id":"d"`)
		run.Dataclip = json.RawMessage(`{}`)
		w.run(Config{Engine: Func(twoSteps)}, run)
		starts, completes := w.events("r1", "step:start"), w.events("r1", "step:complete")
		require.Equal(t, "d", starts[0]["input_dataclip_id"])
		require.Equal(t, completes[0]["output_dataclip_id"], starts[1]["input_dataclip_id"])
		require.Equal(t, completes[1]["output_dataclip_id"], w.result("r1").FinalDataclipID)
		require.Equal(t, `{"data":{"x":1}}`, completes[0]["output_dataclip"])
	})
}

func TestTheWorstLeafIsTheReason(t *testing.T) {
	step := func(run *Run, leaf bool, reason Reason) {
		s := run.StartStep("a", nil)
		s.Complete(StepResult{Reason: reason, ErrorType: "JobError", ErrorMessage: "was " + string(reason), Leaf: leaf})
	}
	tests := []struct {
		name   string
		engine Func
		want   string
	}{
		{name: "no steps", engine: success, want: "success"},
		{name: "a leaf failed", engine: func(_ context.Context, r *Run) (any, error) {
			step(r, true, Success)
			step(r, true, Fail)
			return nil, nil
		}, want: "fail"},
		{name: "what failed was followed by another step", engine: func(_ context.Context, r *Run) (any, error) {
			step(r, false, Fail)
			step(r, true, Success)
			return nil, nil
		}, want: "success"},
		{name: "the worse of two", engine: func(_ context.Context, r *Run) (any, error) {
			step(r, true, Kill)
			step(r, true, Fail)
			return nil, nil
		}, want: "kill"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			onWire(t, func(t *testing.T, w *wire) {
				outcome := w.run(Config{Engine: tt.engine}, planOf(""))
				require.Equal(t, tt.want, string(outcome.Reason))
				require.Equal(t, tt.want, w.result("r1").Reason)
			})
		})
	}
}

// Guards against another end than OpenFn's worker tells: there, a fail counts only if no job that its edges lead to was executed, of
// several steps of a job the last one counts, and of several jobs the first of the plan.
func TestWhichFailureOfALeafCounts(t *testing.T) {
	const plan = `,"edges":[{"source_job_id":"a","target_job_id":"c"},{"source_job_id":"b","target_job_id":"a"}]`
	for name, test := range map[string]struct{ steps, want string }{
		"a step of which another branch came to the next":  {"!b a", ""},
		"one whose next job came first":                    {"a !b", ""},
		"the last of a job succeeded":                      {"!a a", ""},
		"the last of a job failed":                         {"a !a", "a2"},
		"both of a job failed":                             {"!a !a", "a2"},
		"two jobs failed":                                  {"!b !z", "b1"},
		"two jobs failed, the later one of the plan first": {"!y !b", "b2"},
		"two jobs that are not in the plan":                {"!z !y", "z1"},
		"one counts and the other does not":                {"!b !a", "a2"},
		"a crash counts in every case":                     {"?b a", "b1"},
		"without a message":                                {"!0", "unknown"},
	} {
		t.Run(name, func(t *testing.T) {
			onWire(t, func(t *testing.T, w *wire) {
				w.run(Config{Engine: Func(func(_ context.Context, run *Run) (any, error) {
					for i, word := range strings.Fields(test.steps) {
						job := strings.TrimLeft(word, "!?")
						result := StepResult{State: json.RawMessage(`{}`), Leaf: true}
						if job != word {
							result.Reason, result.ErrorType, result.ErrorMessage = Fail, "JobError", job+strconv.Itoa(i+1)
						}
						if word[0] == '?' {
							result.Reason = Crash
						}
						if job == "0" {
							result.ErrorMessage = ""
						}
						run.StartStep(job, nil).Complete(result)
					}
					return nil, nil
				})}, planOf(plan))
				result := w.result("r1")
				require.Equal(t, test.want != "", result.Reason != "success")
				if test.want == "" {
					return
				}
				require.Contains(t, w.logged("r1"), "JobError: "+test.want)
				require.Equal(t, test.want, cmp.Or(result.ErrorMessage, "unknown"))
			})
		})
	}
}

// Guards against a run that is lost because its engine left the reason out, or misspelt it: a server takes a run's
// end with no reason but its own.
func TestAReasonThatThereIsNotLosesNoRun(t *testing.T) {
	ends := func(failure *Failure) Func {
		return func(context.Context, *Run) (any, error) { return nil, failure }
	}
	for name, test := range map[string]struct {
		engine Func
		want   Failure
	}{
		"none":     {ends(&Failure{Type: "NoStock", Message: "sold out"}), Failure{Reason: Fail, Type: "NoStock", Message: "sold out"}},
		"misspelt": {ends(&Failure{Reason: "failed", Type: "NoStock", Message: "sold out"}), Failure{Reason: Exception, Type: "NoStock", Message: "sold out"}},
		"of a leaf": {func(_ context.Context, run *Run) (any, error) {
			run.StartStep("a", nil).Complete(StepResult{Reason: "failed", ErrorType: "NoStock", ErrorMessage: "sold out", Leaf: true})
			return nil, nil
		}, Failure{Reason: Exception, Type: "NoStock", Message: "sold out"}},
	} {
		t.Run(name, func(t *testing.T) {
			onWire(t, func(t *testing.T, w *wire) {
				outcome := w.run(Config{Engine: test.engine}, planOf(""))
				require.Equal(t, test.want.Reason, outcome.Reason)
				require.Equal(t, Processed, outcome.Settled)
				result := w.result("r1")
				require.Equal(t, test.want, Failure{Reason: Reason(result.Reason), Type: result.ErrorType, Message: result.ErrorMessage})
				for _, step := range w.events("r1", "step:complete") {
					require.Equal(t, "exception", step["reason"])
				}
			})
		})
	}
}

// Guards against errors that are kept of every step until the run is over: only that of
// the worst leaf is told once more.
func TestOnlyTheWorstLeafKeepsItsError(t *testing.T) {
	run := &Run{Plan: &Plan{}}
	ends := []StepResult{
		{Reason: Success, WebhookResponse: json.RawMessage(`{}`), Leaf: true},
		{Reason: Fail, ErrorType: "First", ErrorMessage: "of the first", Leaf: true},
		{Reason: Crash, ErrorType: "Inner", ErrorMessage: "of one in the middle"},
		{Reason: Kill, ErrorType: "Worst", ErrorMessage: "of the worst", Leaf: true},
		{Reason: Kill, ErrorType: "Later", ErrorMessage: "of one as bad", Leaf: true},
		{Reason: Fail, ErrorType: "Last", ErrorMessage: "of the last", Leaf: true},
	}
	var steps []*Step
	for range ends {
		step := &Step{}
		run.open, steps = append(run.open, step), append(steps, step)
	}
	for i, step := range steps {
		require.True(t, run.completed(step, ends[i]))
	}
	require.Equal(t, &Failure{Reason: Kill, Type: "Worst", Message: "of the worst"}, run.verdict())
}

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

func TestWhatAnEngineReturnsIsHowTheRunEnds(t *testing.T) {
	tests := []struct {
		name                 string
		engine               Func
		reason, kind, detail string
	}{
		{name: "an error", engine: func(context.Context, *Run) (any, error) { return nil, errors.New("no luck") }, reason: "fail", kind: "JobError", detail: "no luck"},
		{name: "a failure", engine: func(context.Context, *Run) (any, error) {
			return nil, &Failure{Reason: Exception, Type: "DiskError", Message: "full"}
		}, reason: "exception", kind: "DiskError", detail: "full"},
		{name: "a panic", engine: func(context.Context, *Run) (any, error) { panic("ouch") }, reason: "crash", kind: "Panic", detail: "panic: ouch"},
		{name: "the end of its goroutine", engine: func(context.Context, *Run) (any, error) {
			runtime.Goexit()
			return nil, nil
		}, reason: "crash", kind: "EngineError", detail: "the engine ended its goroutine"},
		{name: "a state that is no JSON", engine: func(context.Context, *Run) (any, error) { return func() {}, nil }, reason: "fail", kind: "JobError", detail: "the final state cannot be written as JSON: json: unsupported type: func()"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			onWire(t, func(t *testing.T, w *wire) {
				outcome := w.run(Config{Engine: tt.engine}, planOf(""))
				require.NoError(t, outcome.Err)
				result := w.result("r1")
				require.Equal(t, []string{tt.reason, tt.kind, tt.detail}, []string{result.Reason, result.ErrorType, result.ErrorMessage})
				require.Contains(t, w.logged("r1"), tt.kind+": "+tt.detail)
			})
		})
	}
}

func TestATimeOutKillsTheRunAndItsOpenSteps(t *testing.T) {
	onWire(t, func(t *testing.T, w *wire) {
		engine := Func(func(ctx context.Context, run *Run) (any, error) {
			run.StartStep("a", nil)
			<-ctx.Done()
			return nil, ctx.Err()
		})
		begin := time.Now()
		w.run(Config{Engine: engine}, planOf(`,"options":{"run_timeout_ms":1500}`))
		require.Equal(t, 1500*time.Millisecond, time.Since(begin))
		result := w.result("r1")
		require.Equal(t, "kill", result.Reason)
		require.Equal(t, "Workflow failed to return within 1500ms", result.ErrorMessage)
		step := w.events("r1", "step:complete")[0]
		require.Equal(t, []any{"kill", "TimeoutError", "{}"}, []any{step["reason"], step["error_type"], step["output_dataclip"]})
		require.NotContains(t, step, "mem")
		require.NotContains(t, step, "duration")
	})
}

func TestAnEngineThatIgnoresItsContextIsLeftBehind(t *testing.T) {
	onWire(t, func(t *testing.T, w *wire) {
		let := make(chan struct{})
		engine := Func(func(_ context.Context, run *Run) (any, error) {
			<-let
			run.Print("too late") // must neither block nor be sent
			run.StartStep("a", nil).Complete(StepResult{Leaf: true})
			return nil, nil
		})
		begin := time.Now()
		w.run(Config{Engine: engine, EngineGrace: 3 * time.Second}, planOf(`,"options":{"run_timeout_ms":1000}`))
		require.Equal(t, 4*time.Second, time.Since(begin))
		require.Equal(t, "kill", w.result("r1").Reason)
		close(let)
		synctest.Wait()
		require.NotContains(t, w.logged("r1"), "too late")
	})
}

func TestARunThatCannotBeJoinedIsSaidToBe(t *testing.T) {
	onWire(t, func(t *testing.T, w *wire) {
		outcome := New(Config{Engine: Func(success)}).Run(t.Context(), t.Context(), w.socket, claim.Run{ID: "nobody", Token: "token"}, nil)
		require.ErrorContains(t, outcome.Err, "not_found")
	})
}

// Guards against a run that goes on for ever, and takes all of a processor for
// it, when it is stopped while the server owes it an answer on a live join.
func TestAStopEndsARunThatTheServerDoesNotAnswer(t *testing.T) {
	for _, event := range []string{"fetch:plan", "fetch:dataclip", "fetch:credential", "run:start", "run:log", "step:complete", "run:complete"} {
		t.Run(event, func(t *testing.T) {
			onWire(t, func(t *testing.T, w *wire) {
				id, token := w.claim(mockserver.Run{
					Plan:        json.RawMessage(`{"id":"r1","jobs":[{"id":"a","credential":"c"},{"id":"b"}]}`),
					Credentials: map[string]json.RawMessage{"c": json.RawMessage(`{"k":"v"}`)},
					Dataclip:    json.RawMessage(`{"data":1}`),
				})
				w.fail(fault.Rule{Event: event, Action: fault.Withhold, When: fault.Before, Count: -1})
				work, stop := context.WithCancel(t.Context())
				report, silence := context.WithCancel(t.Context())
				done := make(chan Outcome, 1)
				go func() {
					done <- New(Config{Engine: Func(twoSteps)}).Run(work, report, w.socket, claim.Run{ID: id, Token: token}, nil)
				}()
				time.Sleep(time.Minute)
				stop()
				time.Sleep(15 * time.Second)
				silence()
				begin := time.Now()
				<-done
				require.Zero(t, time.Since(begin))
			})
		})
	}
}

func TestAStopIsReportedWithALiveContext(t *testing.T) {
	onWire(t, func(t *testing.T, w *wire) {
		id, token := w.claim(planOf(""))
		work, cancel := context.WithCancel(t.Context())
		engine := Func(func(ctx context.Context, run *Run) (any, error) {
			run.StartStep("a", nil)
			<-ctx.Done()
			return nil, ctx.Err()
		})
		done := make(chan Outcome)
		go func() {
			done <- New(Config{Engine: engine}).Run(work, t.Context(), w.socket, claim.Run{ID: id, Token: token}, nil)
		}()
		synctest.Wait()
		cancel()
		require.NoError(t, (<-done).Err)
		require.Equal(t, "cancel", w.result("r1").Reason)
		require.Equal(t, "cancel", w.events("r1", "step:complete")[0]["reason"])
	})
}

// bomb cannot be encoded, and says in its panic what the run has of secrets: a mistake of ours while an event is sent.
type bomb struct{ run *Run }

func (b bomb) MarshalJSON() ([]byte, error) {
	panic(fmt.Errorf("bomb: cannot encode %s of %s", b.run.Credential("a"), b.run.Token()))
}

// bombed is an engine of which the server is told by a bomb.
type bombed struct{ Func }

func (e bombed) Prepare(_ context.Context, run *Run) (Execution, error) {
	return Prepared(Versions{"engine": bomb{run}}, func(ctx context.Context) (Result, error) { return e.execute(ctx, run) }), nil
}

// Guards against a mistake of ours in one run that takes the worker down with all others.
func TestAPanicOfOursEndsItsRunOnly(t *testing.T) {
	t.Run("while an event is sent", func(t *testing.T) {
		onWire(t, func(t *testing.T, w *wire) {
			dir := t.TempDir()
			id, token := w.claim(planOf(""))
			r := New(Config{Delivery: delivery.Config{Spool: dir}, Engine: bombed{success}})
			outcome := r.Run(t.Context(), t.Context(), w.socket, claim.Run{ID: id, Token: token}, nil)
			require.ErrorContains(t, outcome.Err, "a mistake in the worker: panic: bomb")
			require.Equal(t, Undelivered, outcome.Settled)
			undelivered := r.Stats().Undelivered
			require.Equal(t, []uint64{1, 1}, []uint64{undelivered["run:start"], undelivered["run:complete"]})
			all, err := readSpool(dir)
			require.NoError(t, err)
			require.Len(t, all[0].Events, int(undelivered["run:log"])+1, "all but the bomb")
		})
	})
	t.Run("while the run is executed", func(t *testing.T) {
		onWire(t, func(t *testing.T, w *wire) {
			outcome := w.run(Config{Engine: Func(success), MaxAttempts: -1, Releaser: explosive{}, Accept: func(context.Context, *Run) error { return ErrRequeue }}, planOf(""))
			require.NoError(t, outcome.Err)
			require.Equal(t, []string{"exception", "WorkerError"}, []string{w.result("r1").Reason, w.result("r1").ErrorType})
		})
	})
}

// explosive stands for any code of ours that panics.
type explosive struct{}

func (explosive) TakesBack() (yes, known bool) { panic("boom") }

func (explosive) Release(context.Context, terms.Release) error { panic("boom") }

// Guards against a run that was joined late, because the server was away, and is
// given its whole time from then on: its token would be over before it ended.
func TestALateJoinDoesNotProlongTheRunsToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSigningWire(t, mockserver.Config{})
		claimed := time.Now()
		id, token := w.claim(planOf(""))
		over := claimed.Add(w.lifetime(token))
		time.Sleep(4 * time.Minute)
		outcome := New(Config{Engine: Func(func(ctx context.Context, _ *Run) (any, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		})}).Run(t.Context(), t.Context(), w.socket, claim.Run{ID: id, Token: token, Claimed: claimed}, nil)
		require.NoError(t, outcome.Err)
		require.True(t, time.Now().Before(over), "%s too late", time.Since(over))
		require.Equal(t, "kill", w.result("r1").Reason)
	})
}

// Guards against a bound that nobody is told of, and against one line for each run.
func TestATokenThatDoesNotTellItsEndIsToldOnce(t *testing.T) {
	for _, opaque := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			w := newSigningWire(t, mockserver.Config{OpaqueTokens: opaque})
			var log bytes.Buffer
			r := New(Config{Engine: Func(success), Logger: slog.New(slog.NewTextHandler(&log, nil))})
			for _, id := range []string{"a", "b", "c"} {
				_, token := w.claim(mockserver.Run{Plan: json.RawMessage(`{"id":"` + id + `","jobs":[{"id":"j"}]}`)})
				require.NoError(t, r.Run(t.Context(), t.Context(), w.socket, claim.Run{ID: id, Token: token}, nil).Err)
			}
			told := 0
			if opaque {
				told = 1
			}
			require.Equal(t, told, strings.Count(log.String(), `msg="the server's run tokens do not tell how long they live; what cannot be reported of a run is given up when it was claimed so long ago" after=24h0m0s`), log.String())
		})
	}
}

// A token that does not tell its end is no reason to end a run early.
func TestATokenThatDoesNotTellItsEndEndsNoRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire(t, mockserver.Config{RunTimeout: 100 * time.Hour, JanitorInterval: 200 * time.Hour})
		outcome := w.run(Config{Limits: Limits{RunTimeout: 48 * time.Hour}, Engine: Func(func(ctx context.Context, _ *Run) (any, error) {
			select {
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			case <-time.After(30 * time.Hour):
				return nil, nil
			}
		})}, planOf(""))
		require.NoError(t, outcome.Err)
		require.Equal(t, "success", w.result("r1").Reason)
	})
}

// The events of two steps have the order and the keys of those that OpenFn's
// worker sent for the same workflow.
func TestEventsAreThoseOfTheRecordedWorker(t *testing.T) {
	onWire(t, func(t *testing.T, w *wire) {
		run := planOf(`,"dataclip_id":"d"`)
		run.Dataclip = json.RawMessage(`{"data":{}}`)
		outcome := w.run(Config{Engine: Func(twoSteps)}, run)
		require.NoError(t, outcome.Err)

		record, _ := w.server.Inspect("r1")
		var got []recordedEvent
		for _, e := range record.Events {
			require.Equal(t, "ok", e.Status, "%s: %s", e.Event, e.Response)
			if strings.HasPrefix(e.Event, "run:") || strings.HasPrefix(e.Event, "step:") {
				got = append(got, recordedEvent{e.Event, keysOf(t, e.Payload)})
			}
		}
		isLog := func(e recordedEvent) bool { return e.name == "run:log" }
		want := recording(t)
		require.Contains(t, want, got[slices.IndexFunc(got, isLog)])
		require.Equal(t, slices.DeleteFunc(want, isLog), slices.DeleteFunc(got, isLog))
	})
}

type recordedEvent struct {
	name string
	keys []string
}

func keysOf(t *testing.T, payload []byte) []string {
	t.Helper()
	var fields map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(payload, &fields))
	delete(fields, "dataclip_size_mb") // newer than the recording
	keys := make([]string, 0, len(fields))
	for key := range fields {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

func recording(t *testing.T) (events []recordedEvent) {
	t.Helper()
	file, err := os.Open("testdata/ws-worker-1.25.0-real-engine.ndjson")
	require.NoError(t, err)
	defer file.Close()
	scan := bufio.NewScanner(file)
	for scan.Scan() {
		var line struct{ Dir, Frame string }
		require.NoError(t, json.Unmarshal(scan.Bytes(), &line))
		var parts [5]json.RawMessage
		if line.Dir != "c2s" || json.Unmarshal([]byte(line.Frame), &parts) != nil {
			continue
		}
		var event string
		require.NoError(t, json.Unmarshal(parts[3], &event))
		if strings.HasPrefix(event, "run:") || strings.HasPrefix(event, "step:") {
			events = append(events, recordedEvent{event, keysOf(t, parts[4])})
		}
	}
	require.NoError(t, scan.Err())
	return events
}

// FuzzToken looks for tokens whose life is no time that can be waited for.
func FuzzToken(f *testing.F) {
	claims := func(c string) string {
		return "eyJhbGciOiJub25lIn0." + base64URL(c) + "."
	}
	for _, c := range []string{`{}`, `{"nbf":1,"exp":2}`, `{"iat":1,"exp":1e300}`, `{"nbf":-1e300,"exp":1e300}`, `{"nbf":5,"exp":1}`, `{"exp":9223372036854775807,"iat":-9223372036854775808}`, `{"exp":"1"}`, `{"exp":{}}`, `[]`, `{"nbf":0,"exp":1e18}`} {
		f.Add(claims(c))
	}
	f.Add("")
	f.Add("x.y.z")
	f.Fuzz(func(t *testing.T, token string) {
		now := time.Now()
		run, _ := New(Config{Limits: Limits{RunTimeout: time.Hour}}).enlist(claim.Run{Token: token, Claimed: now}, nil, nil)
		end, _ := run.outbox.TokenEnd()
		require.True(t, end.After(now), "%v", end)
		at, _ := run.lastMoment()
		require.WithinRange(t, at, now.Add(-time.Minute), now.Add(2*time.Hour))
	})
}

func base64URL(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }
