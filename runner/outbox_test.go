package runner

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/claim"
	"github.com/phxworker/phxworker/mockserver/fault"
)

// Guards against an event that waits for ever for room that there will never be.
func TestAnEventThatIsLargerThanTheOutboxIsSent(t *testing.T) {
	onWire(t, func(t *testing.T, w *wire) {
		w.run(Config{OutboxBytes: 1, Engine: Func(twoSteps)}, planOf(""))
		require.Contains(t, w.logged("r1"), "hello")
		require.Len(t, w.events("r1", "step:complete"), 2)
	})
}

// Guards against an engine that hangs in a full outbox when its time is over, and
// is left behind for it.
func TestAFullOutboxLetsGoOfAnEngineWhoseTimeIsOver(t *testing.T) {
	onWire(t, func(t *testing.T, w *wire) {
		id, token := w.claim(planOf(`,"options":{"run_timeout_ms":2000}`))
		w.fail(fault.Rule{Event: "run:start", Action: fault.Delay, Delay: 10 * time.Second})
		begin, lines := time.Now(), 0
		var returned time.Duration
		outcome := New(Config{OutboxBytes: 10_000, Engine: Func(func(ctx context.Context, run *Run) (any, error) {
			for ctx.Err() == nil {
				run.Print(strings.Repeat("x", 1000))
				lines++
			}
			returned = time.Since(begin)
			return nil, context.Cause(ctx)
		})}).Run(t.Context(), t.Context(), w.socket, claim.Run{ID: id, Token: token}, nil)
		require.NoError(t, outcome.Err)
		require.Equal(t, 2*time.Second, returned)
		require.Less(t, lines, 10)
		require.Equal(t, "kill", w.result("r1").Reason)
	})
}

// Guards against a line behind the end of its run, which the server would close the
// topic over.
func TestNothingIsSentAfterTheEnd(t *testing.T) {
	onWire(t, func(t *testing.T, w *wire) {
		id, token := w.claim(planOf(`,"options":{"run_timeout_ms":1000}`))
		w.fail(fault.Rule{Event: "run:complete", Action: fault.Delay, Delay: 10 * time.Second})
		engine := Func(func(_ context.Context, run *Run) (any, error) {
			time.Sleep(12 * time.Second) // the run is over for it after 6
			run.Print("too late")
			return nil, nil
		})
		require.NoError(t, New(Config{Engine: engine}).Run(t.Context(), t.Context(), w.socket, claim.Run{ID: id, Token: token}, nil).Err)
		synctest.Wait()
		record, _ := w.server.Inspect("r1")
		require.Equal(t, "run:complete", record.Events[len(record.Events)-1].Event)
	})
}

// Guards against an engine that works on, in a slot of the group, for a run that the
// server will not hear of any more.
func TestAnEngineThatNobodyCanHearIsStopped(t *testing.T) {
	onWire(t, func(t *testing.T, w *wire) {
		id, token := w.claim(planOf(`,"options":{"run_timeout_ms":36000000}`))
		w.fail(fault.Rule{Event: fault.Join, Run: "r1", Skip: 1, Action: fault.Refuse, Response: json.RawMessage(`{"reason":"not_found"}`)})
		var cause error
		begin := time.Now()
		outcome := New(Config{Engine: Func(func(ctx context.Context, _ *Run) (any, error) {
			synctest.Wait() // all that there is to send was sent
			w.cut()
			<-ctx.Done()
			cause = context.Cause(ctx)
			return nil, cause
		})}).Run(t.Context(), t.Context(), w.socket, claim.Run{ID: id, Token: token}, nil)
		require.Less(t, time.Since(begin), time.Minute)
		require.ErrorContains(t, cause, "cannot be told of the run any more")
		require.Equal(t, Undelivered, outcome.Settled)
	})
}

// Guards against responses to webhooks and errors that fill the memory while the server
// takes nothing: they wait in the outbox like the outputs of steps.
func TestAllThatIsLargeInAStepsEndIsCounted(t *testing.T) {
	large := strings.Repeat("x", 10_000)
	for name, result := range map[string]StepResult{
		"a response to a webhook": {WebhookResponse: json.RawMessage(`{"body":"` + large + `"}`)},
		"an error":                {Reason: Fail, ErrorMessage: large},
	} {
		t.Run(name, func(t *testing.T) {
			onWire(t, func(t *testing.T, w *wire) {
				id, token := w.claim(planOf(""))
				w.fail(fault.Rule{Event: "run:start", Action: fault.Delay, Delay: 10 * time.Second})
				began := time.Now()
				var waited time.Duration
				outcome := New(Config{OutboxBytes: 50_000, Engine: Func(func(_ context.Context, run *Run) (any, error) {
					for range 8 {
						run.StartStep("a", nil).Complete(result)
					}
					waited = time.Since(began)
					return nil, nil
				})}).Run(t.Context(), t.Context(), w.socket, claim.Run{ID: id, Token: token}, nil)
				require.NoError(t, outcome.Err)
				require.GreaterOrEqual(t, waited, 10*time.Second, "until there is room")
			})
		})
	}
}
