package runner

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/claim"
	"github.com/phxworker/phxworker/mockserver"
	"github.com/phxworker/phxworker/mockserver/fault"
)

// Guards against an input that is lost with its reply: a server that erases nothing
// has it still.
func TestAnInputThatIsNotErasedIsReadAgain(t *testing.T) {
	for _, rule := range []fault.Rule{
		{Action: fault.Drop, When: fault.Before}, {Action: fault.Drop, When: fault.After}, {Action: fault.Crash, When: fault.Before},
	} {
		onWire(t, func(t *testing.T, w *wire) {
			run := planOf(`,"dataclip_id":"d"`)
			run.Dataclip = json.RawMessage(`{"data":{"patient":1}}`)
			id, token := w.claim(run)
			rule.Event = "fetch:dataclip"
			w.fail(rule)
			require.NoError(t, New(Config{Engine: Func(func(_ context.Context, run *Run) (any, error) {
				return run.Input, nil
			})}).Run(t.Context(), t.Context(), w.socket, claim.Run{ID: id, Token: token}, nil).Err)
			require.Equal(t, "success", w.result("r1").Reason)
			require.JSONEq(t, `{"data":{"patient":1}}`, string(w.result("r1").FinalState))
		})
	}
}

// Guards against a copy of a large credential for each of very many jobs, and against a run that is refused for what its
// jobs share.
func TestCredentialsForVeryManyJobs(t *testing.T) {
	for _, tt := range []struct {
		name            string
		jobs, different int
		message         string
	}{
		{name: "shared", jobs: 200, different: 1},
		{name: "very many copies", jobs: 700, different: 1, message: "The credentials of all jobs have 70001400 bytes together, over the limit of 67108864: each job is given its own copy"},
		{name: "very many", jobs: 170, different: 170, message: "The credentials of the run have 17000340 bytes together, over the limit of 16777216"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if testing.Short() && tt.name != "very many copies" {
				t.Skip("it takes seconds with the race detector")
			}
			onWire(t, func(t *testing.T, w *wire) {
				jobs := make([]string, tt.jobs)
				run := mockserver.Run{Queue: "manual", Credentials: make(map[string]json.RawMessage)}
				for i := range jobs {
					id := fmt.Sprint("c", i%tt.different)
					jobs[i] = fmt.Sprintf(`{"id":"j%d","credential":%q}`, i, id)
					run.Credentials[id] = json.RawMessage(`"` + strings.Repeat("s", 100_000) + `"`)
				}
				run.Plan = json.RawMessage(`{"id":"r1","jobs":[` + strings.Join(jobs, ",") + `]}`)
				w.run(Config{Engine: Func(success)}, run)
				result := w.result("r1")
				require.Equal(t, tt.message, result.ErrorMessage)
				require.Equal(t, tt.message != "", result.ErrorType == "CredentialLoadError")
				require.Len(t, w.events("r1", "fetch:credential"), tt.different)
			})
		})
	}
}

func TestWhatTheServerRefusesToShowEndsTheRun(t *testing.T) {
	tests := []struct{ event, kind, message string }{
		{event: "fetch:plan", kind: "PlanError", message: "Failed to load the plan: [fetch:plan] no"},
		{event: "fetch:dataclip", kind: "DataClipError", message: "Failed to load dataclip d: [fetch:dataclip] no"},
	}
	for _, tt := range tests {
		t.Run(tt.event, func(t *testing.T) {
			onWire(t, func(t *testing.T, w *wire) {
				run := planOf(`,"dataclip_id":"d"`)
				run.Dataclip = json.RawMessage(`{}`)
				id, token := w.claim(run)
				w.fail(fault.Rule{Event: tt.event, Action: fault.Refuse, Response: json.RawMessage(`"no"`)})
				require.NoError(t, New(Config{Engine: Func(success)}).Run(t.Context(), t.Context(), w.socket, claim.Run{ID: id, Token: token}, nil).Err)
				result := w.result("r1")
				require.Equal(t, []string{"exception", tt.kind, tt.message}, []string{result.Reason, result.ErrorType, result.ErrorMessage})
				require.NotContains(t, w.names("r1"), "run:start")
			})
		})
	}
}

// Guards against a plan that has the worker ask for everything at once, or compare each with each,
// and against a report that is as long as the plan.
func TestAPlanWithManyCredentialsAsksForAFewAtATime(t *testing.T) {
	onWire(t, func(t *testing.T, w *wire) {
		var jobs []string
		for n := range 300 {
			jobs = append(jobs, fmt.Sprintf(`{"id":"j%d","credential":"c%d"}`, n, n%200))
		}
		run := planOf("")
		run.Plan = json.RawMessage(`{"id":"r1","jobs":[` + strings.Join(jobs, ",") + `]}`)
		id, token := w.claim(run)
		w.fail(fault.Rule{Event: "fetch:credential", Action: fault.Delay, Delay: time.Second, Count: -1})
		began := time.Now()
		require.NoError(t, New(Config{Engine: Func(success)}).Run(t.Context(), t.Context(), w.socket, claim.Run{ID: id, Token: token}, nil).Err)
		require.GreaterOrEqual(t, time.Since(began), 200/16*time.Second)
		result := w.result("r1")
		require.Equal(t, "CredentialLoadError", result.ErrorType)
		require.Equal(t, 20, strings.Count(result.ErrorMessage, "\n"))
		require.Contains(t, result.ErrorMessage, "… and 180 more")
	})
}

// Guards against an id that is taken for a format, and against words of the server that come back
// to it in full.
func TestWhatTheServerSaysIsToldInShort(t *testing.T) {
	onWire(t, func(t *testing.T, w *wire) {
		run := planOf(`,"dataclip_id":"100%d"`)
		run.Dataclip = json.RawMessage(`{}`)
		id, token := w.claim(run)
		w.fail(fault.Rule{Event: "fetch:dataclip", Action: fault.Refuse, Response: json.RawMessage(`"` + strings.Repeat("no, ", 100_000) + `"`)})
		require.NoError(t, New(Config{Engine: Func(success)}).Run(t.Context(), t.Context(), w.socket, claim.Run{ID: id, Token: token}, nil).Err)
		message := w.result("r1").ErrorMessage
		require.Regexp(t, `^Failed to load dataclip 100%d: \[fetch:dataclip\] no, .*…$`, message)
		require.Less(t, len(message), 1100)
	})
}
