package runner

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/channel"
	"github.com/phxworker/phxworker/claim"
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
			done <- New(Config{Engine: engine, OutboxBytes: 10_000}).Run(t.Context(), t.Context(), w.socket, claim.Run{ID: id, Token: token}, nil)
		}()
		outcome := <-done
		require.NoError(t, outcome.Err)
		require.Equal(t, 100, sent)
		require.GreaterOrEqual(t, len(w.logged("r1")), 100)
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

// dawdling is an event that takes so long to be made that the join is another by then.
type dawdling struct {
	plain

	make func()
}

func (dawdling) name() string { return "run:log" }
func (e dawdling) payload() any {
	e.make()
	return map[string]any{"message": []string{"x"}, "source": "JOB", "level": "info", "timestamp": "1"}
}

func TestAnEventGoesOutUnderTheJoinThatWasMadeReadyForIt(t *testing.T) {
	onWire(t, func(t *testing.T, w *wire) {
		id, token := w.claim(planOf(""))
		topic, err := w.socket.Join(t.Context(), "run:"+id, joinPayload{token: token})
		require.NoError(t, err)
		log := slog.New(slog.DiscardHandler)
		box := newOutbox(topic, log, 0, newPatience(token, time.Now(), time.Minute, func() {}), new(tally))
		readied := 0
		box.afterRejoin(func(context.Context, *channel.Join) { readied++ })
		once := sync.OnceFunc(func() {
			w.cut()
			time.Sleep(time.Minute)
			_, err := topic.Ready(t.Context())
			require.NoError(t, err)
		})
		refusal, err := box.deliver(t.Context(), dawdling{make: once}, new(tries))
		require.NoError(t, err)
		require.NoError(t, refusal)
		require.Equal(t, 1, readied, "the credentials are fetched before the first event of a new join")
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
			w.run(Config{Engine: engine, NativeDataclips: true}, planOf(""))
			output, err := json.Marshal(w.events("r1", "step:complete")[0]["output_dataclip"])
			require.NoError(t, err)
			require.JSONEq(t, want, string(output))
		})
	}
}

func TestTheSizeOfADataclipIsTold(t *testing.T) {
	for bytes, want := range map[int]string{0: "", 2: "0.00000191", 1 << 10: "0.000977", 1 << 20: "1.00", 10<<20 - 1: "10.0", 123_456_789: "118", 2000 << 20: "2000"} {
		require.Equal(t, want, sizeMB(bytes))
	}
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
