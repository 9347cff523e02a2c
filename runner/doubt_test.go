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
	"github.com/phxworker/phxworker/mockserver"
	"github.com/phxworker/phxworker/mockserver/fault"
)

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

// Guards against a large input on a slow line that is never waited for.
func TestASlowInputIsWaitedFor(t *testing.T) {
	for _, wipe := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w := newWire(t, mockserver.Config{WipeDataclips: wipe})
			id, token := w.claim(fetching())
			w.fail(fault.Rule{Event: "fetch:dataclip", Action: fault.Delay, Delay: 50 * time.Second, Count: -1})
			r := New(Config{Engine: Func(twoSteps)})
			w.hasAll(r, r.Run(t.Context(), t.Context(), w.socket, claim.Run{ID: id, Token: token}, nil))
		})
	}
}

// Guards against a connection that each fetch of one run takes down for all others.
func TestAFetchThatAlwaysDropsTheConnectionEndsTheRun(t *testing.T) {
	onWire(t, func(t *testing.T, w *wire) {
		id, token := w.claim(fetching())
		w.fail(fault.Rule{Event: "fetch:dataclip", Action: fault.Drop, Count: -1})
		outcome := New(Config{Engine: Func(twoSteps)}).Run(t.Context(), t.Context(), w.socket, claim.Run{ID: id, Token: token}, nil)
		require.NoError(t, outcome.Err)
		require.Equal(t, []string{"exception", "DataClipError"}, []string{w.result("r1").Reason, w.result("r1").ErrorType})
		require.Len(t, w.server.Faults(), manyLosses)
	})
}

// bomb is an event that cannot be made, which is a mistake of ours.
type bomb struct{ plain }

func (bomb) name() string { return "run:log" }
func (bomb) payload() any { panic("bomb") }

// Guards against a mistake of ours in one run that takes the worker down with all others.
func TestAPanicOfOursEndsItsRunOnly(t *testing.T) {
	t.Run("while an event is sent", func(t *testing.T) {
		onWire(t, func(t *testing.T, w *wire) {
			dir := t.TempDir()
			id, token := w.claim(planOf(""))
			r := New(Config{Spool: dir, Engine: Func(func(_ context.Context, run *Run) (any, error) {
				run.outbox.force(bomb{}, 0)
				return nil, nil
			})})
			outcome := r.Run(t.Context(), t.Context(), w.socket, claim.Run{ID: id, Token: token}, nil)
			require.ErrorContains(t, outcome.Err, "a mistake in the worker: panic: bomb")
			require.Equal(t, Undelivered, outcome.Settled)
			require.Equal(t, map[string]uint64{"run:log": 2, "run:complete": 1}, r.Stats().Undelivered)
			all, err := readSpool(dir)
			require.NoError(t, err)
			require.Len(t, all[0].Events, 2, "all but the bomb")
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

func (explosive) CanRelease(context.Context) bool        { panic("boom") }
func (explosive) Release(context.Context, Release) error { panic("boom") }

// Guards against a batch that nothing comes out of though each of its lines is good.
func TestABatchThatIsNotBorneIsSentLineByLine(t *testing.T) {
	for _, action := range []fault.Action{fault.Drop, fault.Withhold, fault.Crash} {
		t.Run(string(action), func(t *testing.T) {
			onWire(t, func(t *testing.T, w *wire) {
				id, token := w.claim(planOf(""))
				w.fail(fault.Rule{Event: "run:batch_logs", Action: action, When: fault.Before, Count: -1})
				r := New(Config{BatchLogs: BatchLogs{Interval: time.Second, Limit: 10}, Engine: Func(counts)})
				require.NoError(t, r.Run(t.Context(), t.Context(), w.socket, claim.Run{ID: id, Token: token}, nil).Err)
				messages, _ := w.messages("r1")
				require.Equal(t, numbers(0, 21), messages[:21])
			})
		})
	}
}

// Guards against batches that are given up for the life of a worker because of one crash.
func TestACrashOverABatchDoesNotEndBatchesThatTheServerKnows(t *testing.T) {
	onWire(t, func(t *testing.T, w *wire) {
		id, token := w.claim(planOf(""))
		w.fail(fault.Rule{Event: "run:batch_logs", Skip: 1, Action: fault.Crash, When: fault.Before})
		r := New(Config{BatchLogs: BatchLogs{Interval: 10 * time.Millisecond, Limit: 5}, Engine: Func(counts)})
		require.NoError(t, r.Run(t.Context(), t.Context(), w.socket, claim.Run{ID: id, Token: token}, nil).Err)
		messages, batches := w.messages("r1")
		require.Equal(t, numbers(0, 21), messages[:21])
		require.Greater(t, len(batches), 2)
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

// Guards against a line about what was left out that is lost, with nobody counting it.
func TestWhatTheLogShouldBeToldIsSpooledToo(t *testing.T) {
	onWire(t, func(t *testing.T, w *wire) {
		dir := t.TempDir()
		id, token := w.claim(planOf(""))
		w.fail(fault.Rule{Event: "step:complete", Action: fault.Refuse, Response: json.RawMessage(`{"output_dataclip":["is invalid"]}`)})
		w.fail(fault.Rule{Event: "run:log", Skip: 1, Action: fault.Drop, When: fault.Before})
		w.fail(fault.Rule{Event: fault.Join, Run: "r1", Skip: 1, Action: fault.Refuse, Response: json.RawMessage(`{"reason":"not_found"}`), Count: -1})
		r := New(Config{Engine: Func(twoSteps), Spool: dir})
		r.Run(t.Context(), t.Context(), w.socket, claim.Run{ID: id, Token: token}, nil)
		all, err := readSpool(dir)
		require.NoError(t, err)
		require.Equal(t, []string{"run:log", "step:complete"}, []string{all[0].Events[0].Event, all[0].Events[1].Event})
		require.Contains(t, string(all[0].Events[0].Payload), "left out")
		total := uint64(0)
		for _, n := range r.Stats().Undelivered {
			total += n
		}
		require.EqualValues(t, len(all[0].Events), total)
	})
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

// Guards against a message that can never be sent and is tried for ever.
func TestAFetchThatNoFrameHoldsEndsTheRun(t *testing.T) {
	onWire(t, func(t *testing.T, w *wire) {
		long := strings.Repeat("\u2028", 2_000_000) // twice as long once it is escaped
		outcome := w.run(Config{Engine: Func(success)}, mockserver.Run{Plan: json.RawMessage(`{"id":"r1","dataclip_id":"` + long + `","jobs":[{"id":"a"}]}`)})
		require.NoError(t, outcome.Err)
		require.Equal(t, "DataClipError", w.result("r1").ErrorType)
	})
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
				r := New(Config{OutboxBytes: 3000, Spool: dir, Engine: Func(func(_ context.Context, run *Run) (any, error) {
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
