package runner

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/claim"
	"github.com/phxworker/phxworker/mockserver/fault"
	"github.com/phxworker/phxworker/runner/delivery"
)

func TestLinesGoInBatchesInOrder(t *testing.T) {
	onWire(t, func(t *testing.T, w *wire) {
		outcome := w.run(Config{Engine: Func(counts), Delivery: delivery.Config{BatchLogs: delivery.BatchLogs{Interval: 10 * time.Millisecond, Limit: 5}}}, planOf(""))
		require.NoError(t, outcome.Err)
		messages, batches := w.messages("r1")
		require.Equal(t, append(numbers(0, 21), "Run complete with status: success"), messages)
		require.Equal(t, []int{5, 5, 2, 5, 3, 2}, batches, "no batch reaches over another event; the last line did not wait for it")
		names := w.names("r1")
		require.Equal(t, []string{"run:batch_logs", "run:batch_logs", "run:batch_logs", "step:start", "run:batch_logs", "run:batch_logs", "step:complete"},
			names[len(names)-9:len(names)-2])
		lines, _ := w.lines("r1")
		require.Empty(t, lines[11].StepID)
		require.NotEmpty(t, lines[12].StepID)
	})
}

func TestNoBatchesUnlessAskedFor(t *testing.T) {
	onWire(t, func(t *testing.T, w *wire) {
		w.run(Config{Engine: Func(counts)}, planOf(""))
		messages, batches := w.messages("r1")
		require.Len(t, messages, 22)
		require.Empty(t, batches)
	})
}

// Guards against a batch that takes good lines down with a bad one (traps.md, 21).
func TestARefusedBatchIsSentLineByLine(t *testing.T) {
	onWire(t, func(t *testing.T, w *wire) {
		id, token := w.claim(planOf(""))
		w.fail(fault.Rule{Action: fault.Refuse, Event: "run:batch_logs", Response: json.RawMessage(`{"message":["is invalid"]}`), Count: 1})
		r := New(Config{Engine: Func(counts), Delivery: delivery.Config{BatchLogs: delivery.BatchLogs{Interval: 10 * time.Millisecond, Limit: 5}}})
		require.NoError(t, r.Run(t.Context(), t.Context(), w.socket, claim.Run{ID: id, Token: token}, nil).Err)
		messages, batches := w.messages("r1")
		require.Equal(t, numbers(0, 21), messages[:21])
		require.Equal(t, []int{5, 2, 5, 3, 2}, batches, "the others go on in batches")
		require.Zero(t, r.Stats().Undelivered["run:log"])
	})
}

// A server without run:batch_logs crashes the run's topic.
func TestAServerThatDoesNotKnowBatchesGetsLines(t *testing.T) {
	onWire(t, func(t *testing.T, w *wire) {
		log := &strings.Builder{}
		r := New(Config{
			Engine: Func(counts), Delivery: delivery.Config{BatchLogs: delivery.BatchLogs{Interval: 10 * time.Millisecond, Limit: 5}},
			Logger: slog.New(slog.NewTextHandler(log, nil)),
		})
		w.fail(fault.Rule{Action: fault.Crash, When: fault.Before, Event: "run:batch_logs"})
		for _, id := range []string{"r1", "r2"} {
			plan := planOf("")
			plan.Plan = json.RawMessage(`{"id":"` + id + `","jobs":[{"id":"a"}]}`)
			id, token := w.claim(plan)
			require.NoError(t, r.Run(t.Context(), t.Context(), w.socket, claim.Run{ID: id, Token: token}, nil).Err)
			messages, batches := w.messages(id)
			require.Equal(t, numbers(0, 21), messages[:21])
			require.Empty(t, batches, "the rule strikes once; no other batch may have come")
		}
		require.Equal(t, 1, strings.Count(log.String(), "lines go one by one from now on"))
	})
}

func TestABatchIsSentAgainAfterALostConnectionUnlessAtMostOnce(t *testing.T) {
	for _, atMostOnce := range []bool{false, true} {
		t.Run(fmt.Sprint("at most once: ", atMostOnce), func(t *testing.T) {
			onWire(t, func(t *testing.T, w *wire) {
				id, token := w.claim(planOf(""))
				w.fail(fault.Rule{Action: fault.Drop, When: fault.Before, Event: "run:batch_logs", Count: 1})
				r := New(Config{Engine: Func(counts), Delivery: delivery.Config{LogsAtMostOnce: atMostOnce, BatchLogs: delivery.BatchLogs{Interval: 10 * time.Millisecond, Limit: 5}}})
				require.NoError(t, r.Run(t.Context(), t.Context(), w.socket, claim.Run{ID: id, Token: token}, nil).Err)
				messages, _ := w.messages("r1")
				if atMostOnce {
					require.Equal(t, numbers(5, 21), messages[:16])
					require.Equal(t, uint64(5), r.Stats().Undelivered["run:log"])
					return
				}
				require.Equal(t, numbers(0, 21), messages[:21])
				require.Equal(t, uint64(1), r.Stats().Resent)
			})
		})
	}
}

// Guards against a worker that sends lines at most once, in batches, to a server that
// does not know these: each batch would crash the topic, and all lines be lost.
func TestBatchesAtMostOnceToAServerThatDoesNotKnowThem(t *testing.T) {
	onWire(t, func(t *testing.T, w *wire) {
		id, token := w.claim(planOf(""))
		w.fail(fault.Rule{Action: fault.Crash, When: fault.Before, Event: "run:batch_logs", Count: -1})
		r := New(Config{Engine: Func(counts), Delivery: delivery.Config{LogsAtMostOnce: true, BatchLogs: delivery.BatchLogs{Interval: 10 * time.Millisecond, Limit: 5}}})
		require.NoError(t, r.Run(t.Context(), t.Context(), w.socket, claim.Run{ID: id, Token: token}, nil).Err)
		messages, _ := w.messages("r1")
		require.Equal(t, numbers(5, 21), messages[:len(messages)-1], "one batch may be lost, the other lines go one by one")
	})
}

// Guards against a line that waits for company for ever, or that is not waited for.
func TestALineWaitsForOthersAsLongAsTheIntervalSays(t *testing.T) {
	onWire(t, func(t *testing.T, w *wire) {
		begin := time.Now()
		w.run(Config{Engine: Func(func(_ context.Context, run *Run) (any, error) {
			run.Print(0)
			time.Sleep(300 * time.Millisecond)
			run.Print(1)
			time.Sleep(10 * time.Second)
			for i := 2; i < 5; i++ { // a whole batch
				run.Print(i)
			}
			time.Sleep(10 * time.Second)
			return nil, nil
		}), Delivery: delivery.Config{BatchLogs: delivery.BatchLogs{Interval: time.Second, Limit: 3}}}, planOf(""))
		messages, batches := w.messages("r1")
		require.Equal(t, numbers(0, 5), messages[:5])
		require.Equal(t, []int{2, 3}, batches)
		record, _ := w.server.Inspect("r1")
		var at []time.Duration
		for _, e := range record.Events {
			if e.Event == "run:batch_logs" {
				at = append(at, e.At.Sub(begin))
			}
		}
		require.Equal(t, []time.Duration{time.Second, 10*time.Second + 300*time.Millisecond}, at)
	})
}

// Guards against lines that are taken for delivered with a batch that was not.
func TestABatchThatIsNotDeliveredIsSpooled(t *testing.T) {
	onWire(t, func(t *testing.T, w *wire) {
		id, token := w.claim(planOf(""))
		w.fail(fault.Rule{Action: fault.Drop, When: fault.Before, Event: "run:batch_logs"})
		w.fail(fault.Rule{Event: fault.Join, Run: "r1", Skip: 1, Action: fault.Refuse, Response: json.RawMessage(`{"reason":"not_found"}`)})
		dir := t.TempDir()
		engine := Func(func(ctx context.Context, run *Run) (any, error) {
			for i := range 5 {
				run.Print(i)
			}
			<-ctx.Done()
			return nil, ctx.Err()
		})
		r := New(Config{Engine: engine, Delivery: delivery.Config{Spool: dir, BatchLogs: delivery.BatchLogs{Interval: time.Second, Limit: 5}}})
		require.Equal(t, Undelivered, r.Run(t.Context(), t.Context(), w.socket, claim.Run{ID: id, Token: token}, nil).Settled)
		all, err := readSpool(dir)
		require.NoError(t, err)
		require.Len(t, all, 1)
		for i := range 5 {
			var line entry
			require.NoError(t, json.Unmarshal(all[0].Events[i].Payload, &line))
			require.Equal(t, []any{strconv.Itoa(i)}, line.Message)
		}
	})
}

// Guards against a batch that nothing comes out of though each of its lines is good.
func TestABatchThatIsNotBorneIsSentLineByLine(t *testing.T) {
	for _, action := range []fault.Action{fault.Drop, fault.Withhold, fault.Crash} {
		t.Run(string(action), func(t *testing.T) {
			onWire(t, func(t *testing.T, w *wire) {
				id, token := w.claim(planOf(""))
				w.fail(fault.Rule{Event: "run:batch_logs", Action: action, When: fault.Before, Count: -1})
				r := New(Config{Delivery: delivery.Config{BatchLogs: delivery.BatchLogs{Interval: time.Second, Limit: 10}}, Engine: Func(counts)})
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
		r := New(Config{Delivery: delivery.Config{BatchLogs: delivery.BatchLogs{Interval: 10 * time.Millisecond, Limit: 5}}, Engine: Func(counts)})
		require.NoError(t, r.Run(t.Context(), t.Context(), w.socket, claim.Run{ID: id, Token: token}, nil).Err)
		messages, batches := w.messages("r1")
		require.Equal(t, numbers(0, 21), messages[:21])
		require.Greater(t, len(batches), 2)
	})
}
