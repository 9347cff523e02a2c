package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/claim"
	"github.com/phxworker/phxworker/mockserver/fault"
	"github.com/phxworker/phxworker/runner/delivery"
)

func TestEventsSurviveLostConnectionsInOrder(t *testing.T) {
	onWire(t, func(t *testing.T, w *wire) {
		const lines = 20
		engine := Func(func(_ context.Context, run *Run) (any, error) {
			step := run.StartStep("a", nil)
			for i := range lines {
				step.Log(TextLine("info", "JOB", fmt.Sprint(i)))
				if i%5 == 0 {
					w.cut()
				}
				time.Sleep(10 * time.Second) // the connection may be away or back
			}
			step.Complete(StepResult{State: json.RawMessage(`{}`), Leaf: true})
			return nil, nil
		})
		outcome := w.run(Config{Engine: engine}, planOf(""))
		require.NoError(t, outcome.Err)
		require.Equal(t, "success", w.result("r1").Reason)

		// A line may have arrived twice, for the server does not know it again;
		// none may be missing or late.
		next := 0
		for _, m := range w.logged("r1") {
			if m == fmt.Sprint(next) {
				next++
			}
		}
		require.Equal(t, lines, next)
		require.Len(t, w.events("r1", "step:start"), 1)
		require.Len(t, w.events("r1", "step:complete"), 1)
		require.Len(t, w.events("r1", "run:complete"), 1)
	})
}

func TestAFullOutboxHoldsTheEngineUpAndDropsNothing(t *testing.T) {
	onWire(t, func(t *testing.T, w *wire) {
		sent := 0
		engine := Func(func(_ context.Context, run *Run) (any, error) {
			w.cut()
			for range 100 {
				run.Print(strings.Repeat("x", 1000))
				sent++
			}
			return nil, nil
		})
		id, token := w.claim(planOf(""))
		done := make(chan Outcome)
		go func() {
			done <- New(Config{Engine: engine, Delivery: delivery.Config{OutboxBytes: 10_000}}).Run(t.Context(), t.Context(), w.socket, claim.Run{ID: id, Token: token}, nil)
		}()
		outcome := <-done
		require.NoError(t, outcome.Err)
		require.Equal(t, 100, sent)
		require.GreaterOrEqual(t, len(w.logged("r1")), 100)
	})
}

// Guards against an event that waits for ever for room that there will never be.
func TestAnEventThatIsLargerThanTheOutboxIsSent(t *testing.T) {
	onWire(t, func(t *testing.T, w *wire) {
		w.run(Config{Delivery: delivery.Config{OutboxBytes: 1}, Engine: Func(twoSteps)}, planOf(""))
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
		outcome := New(Config{Delivery: delivery.Config{OutboxBytes: 10_000}, Engine: Func(func(ctx context.Context, run *Run) (any, error) {
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
				r := New(Config{Engine: engine, Delivery: delivery.Config{OutboxBytes: 3000}})
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

// Guards against a step that is neither at the server nor in the spool, because its run was
// given up while the outbox was full.
func TestAFullOutboxOfARunThatIsGivenUpKeepsItsSteps(t *testing.T) {
	ends := map[string]func() (any, error){
		"returns": func() (any, error) { return nil, nil },
		"fails":   func() (any, error) { return nil, errors.New("no") },
		"panics":  func() (any, error) { panic("oh") },
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			onWire(t, func(t *testing.T, w *wire) {
				dir := t.TempDir()
				id, token := w.claim(planOf(""))
				w.fail(fault.Rule{Event: "run:start", Action: fault.Drop, When: fault.Before})
				w.fail(fault.Rule{Event: fault.Join, Run: "r1", Skip: 1, Action: fault.Refuse, Response: json.RawMessage(`{"reason":"not_found"}`), Count: -1})
				r := New(Config{Delivery: delivery.Config{OutboxBytes: 3000, Spool: dir}, Engine: Func(func(_ context.Context, run *Run) (any, error) {
					a := run.StartStep("a", nil)
					for range 5 {
						a.Log(TextLine("info", "JOB", strings.Repeat("x", 1000)))
					}
					a.Complete(StepResult{State: json.RawMessage(`{"a":1}`), Leaf: true})
					return end()
				})})
				outcome := r.Run(t.Context(), t.Context(), w.socket, claim.Run{ID: id, Token: token}, nil)
				require.Equal(t, Undelivered, outcome.Settled)
				all, err := readSpool(dir)
				require.NoError(t, err)
				spooled := make(map[string]uint64)
				for _, e := range all[0].Events {
					spooled[e.Event]++
				}
				require.EqualValues(t, 1, spooled["step:start"])
				require.EqualValues(t, 1, spooled["step:complete"])
				require.EqualValues(t, 1, spooled["run:complete"])
				undelivered := r.Stats().Undelivered
				lines := undelivered["run:log"]
				require.GreaterOrEqual(t, lines, uint64(5+1), "those that found no room are counted, too")
				undelivered["run:log"] = spooled["run:log"]
				require.Equal(t, spooled, undelivered)
			})
		})
	}
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
				outcome := New(Config{Delivery: delivery.Config{OutboxBytes: 50_000}, Engine: Func(func(_ context.Context, run *Run) (any, error) {
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

// dawdling is JSON that takes so long to be made that the join is another by then.
type dawdling func()

func (d dawdling) MarshalJSON() ([]byte, error) {
	d()
	return []byte(`{"worker":"slow"}`), nil
}

func TestAnEventGoesOutUnderTheJoinThatWasMadeReadyForIt(t *testing.T) {
	onWire(t, func(t *testing.T, w *wire) {
		box, topic := w.outbox(claim.Run{}, nil)
		_, _, err := box.Read(t.Context(), topic, "fetch:credential", idPayload{"c"}, false)
		require.NoError(t, err)
		box.Start(dawdling(sync.OnceFunc(func() {
			w.cut()
			time.Sleep(time.Minute)
			_, err := topic.Ready(t.Context())
			require.NoError(t, err)
		})))
		box.Close()
		require.NoError(t, box.Deliver(t.Context(), topic))
		require.Len(t, w.events("r1", "run:start"), 1)
		require.Equal(t, []string{"fetch:credential", "fetch:credential", "run:start"}, w.names("r1"), "the credentials are fetched before the first event of a new join")
	})
}
