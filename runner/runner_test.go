package runner

import (
	"context"
	"encoding/json"
	"errors"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/claim"
	"github.com/phxworker/phxworker/mockserver"
)

// twoSteps is an engine that reports two jobs, the second on the output of the
// first.
func twoSteps(_ context.Context, run *Run) (any, error) {
	a := run.StartStep("a", nil)
	a.Log(TextLine("info", "JOB", "hello"))
	memory := Memory{Job: 1, System: 2}
	a.Complete(StepResult{State: json.RawMessage(`{"data":{"x":1}}`), Duration: time.Millisecond, Memory: memory, ThreadID: "1"})
	b := run.StartStep("b", a)
	b.Complete(StepResult{State: json.RawMessage(`{"data":{"x":2}}`), Leaf: true, Duration: time.Millisecond, Memory: memory, ThreadID: "1"})
	return json.RawMessage(`{"data":{"x":2}}`), nil
}

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

func TestWhatCannotBeFetchedEndsTheRunBeforeItStarts(t *testing.T) {
	tests := []struct {
		name    string
		run     mockserver.Run
		kind    string
		message string
	}{
		{
			name: "a credential", run: mockserver.Run{Plan: json.RawMessage(`{"id":"r1","jobs":[{"id":"a","credential_id":"nope"},{"id":"b","credential":"nope"}]}`)},
			kind: "CredentialLoadError", message: `Failed to load credential nope: [fetch:credential] {"errors":{"id":["Credential not found!"]}}`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			onWire(t, func(t *testing.T, w *wire) {
				w.run(Config{Engine: Func(success)}, tt.run)
				result := w.result("r1")
				require.Equal(t, []string{"exception", tt.kind, tt.message}, []string{result.Reason, result.ErrorType, result.ErrorMessage})
				require.NotContains(t, w.names("r1"), "run:start")
			})
		})
	}
}

func TestARunThatCannotBeJoinedIsSaidToBe(t *testing.T) {
	onWire(t, func(t *testing.T, w *wire) {
		outcome := New(Config{Engine: Func(success)}).Run(t.Context(), t.Context(), w.socket, claim.Run{ID: "nobody", Token: "token"}, nil)
		require.ErrorContains(t, outcome.Err, "not_found")
	})
}

func TestCredentialsAndInputReachTheEngine(t *testing.T) {
	onWire(t, func(t *testing.T, w *wire) {
		var input, first, second string
		engine := Func(func(_ context.Context, run *Run) (any, error) {
			input, first, second = string(run.Input), string(run.Credential("a")), string(run.Credential("b"))
			return nil, nil
		})
		w.run(Config{Engine: engine}, mockserver.Run{
			Plan:        json.RawMessage(`{"id":"r1","dataclip_id":"d","jobs":[{"id":"a","credential":"c"},{"id":"b","credential":{"inline":"yes"}}]}`),
			Dataclip:    json.RawMessage(`{"data":"héllo"}`),
			Credentials: map[string]json.RawMessage{"c": json.RawMessage(`{"password":"hunter22"}`)},
		})
		require.Equal(t, []string{`{"data":"héllo"}`, `{"password":"hunter22"}`, `{"inline":"yes"}`}, []string{input, first, second})
	})
}

func TestSecretsOfCredentialsNeverReachTheLog(t *testing.T) {
	onWire(t, func(t *testing.T, w *wire) {
		engine := Func(func(_ context.Context, run *Run) (any, error) {
			run.Print("the password is hunter22!")
			run.Log(Line{Message: []json.RawMessage{json.RawMessage(`{"hunter22":["x hunter22"],"n":1234}`)}})
			return nil, nil
		})
		w.run(Config{Engine: engine}, mockserver.Run{
			Plan:        json.RawMessage(`{"id":"r1","jobs":[{"id":"a","credential":"c"}]}`),
			Credentials: map[string]json.RawMessage{"c": json.RawMessage(`{"username":"somebody","password":"hunter22","pin":"1234"}`)},
		})
		require.Equal(t, []string{"the password is ***!", "map[***:[x ***] n:1234]", "Run complete with status: success"}, w.logged("r1"))
	})
}
