package phxworker

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/mockserver"
	"github.com/phxworker/phxworker/mockserver/fault"
	"github.com/phxworker/phxworker/runner"
	"github.com/phxworker/phxworker/slots"
)

// Bugs that other workers had, each through the whole worker and over the wire.

// fail makes the server misbehave.
func (h *house) fail(r fault.Rule) {
	h.t.Helper()
	_, err := h.server.AddFault(r)
	require.NoError(h.t, err)
}

// inSteps executes a run in one step, which waits for the gate.
func (g *gate) inSteps(ctx context.Context, run *Run) (any, error) {
	step := run.StartStep("j", nil)
	step.Log(runner.TextLine("info", "JOB", "working"))
	state, err := g.hold(ctx, run)
	if err == nil {
		step.Complete(runner.StepResult{State: json.RawMessage(`{"done":true}`), Leaf: true})
	}
	return state, err
}

// taken counts the events with this name that the server took of a run.
func (h *house) taken(id, event string) int {
	h.t.Helper()
	record, ok := h.server.Inspect(id)
	require.True(h.t, ok)
	n := 0
	for _, e := range record.Events {
		if e.Event == event && e.Status == "ok" {
			n++
		}
	}
	return n
}

// Guards against a step:complete in flight across a reconnect that never
// resolves, which loses the run.
func TestTrapStepCompleteInFlightAcrossAReconnect(t *testing.T) {
	for _, when := range []fault.When{fault.Before, fault.After} {
		for _, action := range []fault.Action{fault.Drop, fault.Restart, fault.Crash} {
			t.Run(fmt.Sprint(action, " ", when), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					h := openHouse(t, quiet)
					h.enqueue("manual", "m1")
					h.fail(fault.Rule{Event: "step:complete", Action: action, When: when})
					worker, _ := h.hire(Config{Engine: Func(h.gate.inSteps)})
					settle(time.Second)
					h.gate.release("m1")
					settle(5 * time.Minute)
					require.Equal(t, "success", h.state("m1"))
					require.Equal(t, 1, h.taken("m1", "step:complete"))
					require.Equal(t, 1, h.taken("m1", "run:complete"))
					require.Zero(t, worker.Stats().Undelivered)
				})
			})
		}
	}
}

// Guards against a claim reply that arrives while the worker is stopping: its run
// would be lost.
func TestTrapClaimReplyWhileShuttingDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := openHouse(t, quiet)
		h.enqueue("manual", "m1")
		h.fail(fault.Rule{Event: "claim", Action: fault.Delay, Delay: 15 * time.Second}) // a full database
		h.gate.release("m1")
		_, stop := h.hire(Config{})
		settle(5 * time.Second)
		require.Equal(t, "claimed", h.state("m1"))
		require.NoError(t, stop())
		require.Equal(t, "success", h.state("m1"))
	})
}

// Guards against a claim in flight at the disconnect that holds its slot until
// the claim's time-out, an hour later.
func TestTrapClaimInFlightAtTheDisconnectFreesItsSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := openHouse(t, quiet)
		h.enqueue("manual", "m1", "m2")
		h.fail(fault.Rule{Event: "claim", Action: fault.Drop, When: fault.After})
		h.hire(Config{Groups: slots.MustParse("manual>*:1")})
		settle(10 * time.Second)
		require.Equal(t, "claimed", h.state("m1"), "the server gave it to nobody, which nothing can mend")
		require.Equal(t, "started", h.state("m2"))
	})
}

// Guards against a final report that is sent with a context which is already
// cancelled.
func TestTrapTheFinalReportHasALiveContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := openHouse(t, quiet)
		h.enqueue("manual", "m1")
		h.fail(fault.Rule{Event: "run:complete", Action: fault.Drop, When: fault.Before})
		worker, stop := h.hire(Config{Engine: Func(h.gate.inSteps)})
		settle(time.Second)
		worker.Abort()
		require.ErrorIs(t, stop(), ErrAborted)
		require.Equal(t, "cancelled", h.state("m1"), "even across a reconnect")
		require.Zero(t, worker.Stats().Undelivered)
	})
}

// Guards against an abandoned dial that leaves its connection open.
func TestTrapAnAbandonedDialIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := openHouse(t, quiet)
		h.fail(fault.Rule{Event: fault.Connect, Action: fault.Delay, Delay: time.Hour, Count: -1})
		_, stop := h.hire(Config{})
		settle(5 * time.Minute) // each attempt is given up by then
		require.LessOrEqual(t, h.listener.Open(), 1, "the attempt under way")
		require.Greater(t, h.listener.Dialed(), 3)
		require.NoError(t, stop())
		synctest.Wait()
		require.Zero(t, h.listener.Open())
		h.server.ClearFaults()
	})
}

// Guards against a close with code 1000 that is taken as final.
func TestTrapAKickIsNotFinal(t *testing.T) {
	for _, code := range []int{1000, 1001, 1002, 1011, 1012, fault.Abnormal} {
		t.Run(fmt.Sprint(code), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := openHouse(t, quiet)
				h.enqueue("manual", "m1")
				h.hire(Config{})
				settle(time.Second)
				require.NoError(t, h.server.Kick(code))
				h.enqueue("manual", "m2")
				settle(time.Minute)
				require.Equal(t, "started", h.state("m2"))
				h.gate.release("m1")
				settle(time.Second)
				require.Equal(t, "success", h.state("m1"))
			})
		})
	}
}

// Guards against a message over the limit, counted once it is escaped, that
// closes the socket for every run on it.
func TestTrapAMessageOverTheLimitHurtsNobodyElse(t *testing.T) {
	if testing.Short() {
		t.Skip("megabytes of text, which the race detector reads slowly")
	}
	synctest.Test(t, func(t *testing.T) {
		h := openHouse(t, quiet)
		h.enqueue("manual", "big", "small")
		h.hire(Config{Engine: Func(func(ctx context.Context, run *Run) (any, error) {
			if run.ID == "small" {
				return h.gate.inSteps(ctx, run)
			}
			// Within the limit of a payload, over that of a frame: each quote takes
			// two bytes more within a string.
			quotes, err := json.Marshal(map[string]string{"data": strings.Repeat(`"`, 4<<20)})
			step := run.StartStep("j", nil)
			step.Log(runner.Line{Message: []json.RawMessage{quotes}})
			step.Complete(runner.StepResult{State: quotes, Leaf: true})
			return json.RawMessage(quotes), err
		})})
		settle(time.Minute)
		require.Equal(t, "success", h.state("big"))
		record, _ := h.server.Inspect("big")
		require.True(t, slices.ContainsFunc(record.Events, func(e mockserver.Event) bool {
			return e.Event == "step:complete" && strings.Contains(string(e.Payload), "DATACLIP_TOO_LARGE")
		}))
		h.gate.release("small")
		settle(time.Second)
		require.Equal(t, "success", h.state("small"))
		require.Equal(t, 1, h.listener.Dialed(), "one connection for all of it")
	})
}

// Guards against a line that is refused and dropped without a trace.
func TestTrapARefusedLineLeavesATrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := openHouse(t, quiet)
		h.enqueue("manual", "m1")
		h.fail(fault.Rule{Event: "run:log", Action: fault.Refuse, Response: json.RawMessage(`{"errors":{"message":["is invalid"]}}`)})
		var log bytes.Buffer
		h.gate.release("m1")
		_, stop := h.hire(Config{Engine: Func(h.gate.inSteps), Logger: slog.New(slog.NewTextHandler(&log, nil))})
		settle(time.Second)
		require.NoError(t, stop())
		require.Contains(t, h.sent("run:log")[1].payload, "it was left out", "a note stands in its place")
		require.Equal(t, 2, h.taken("m1", "run:log"), "the note and the status")
		require.Contains(t, log.String(), "the server does not take an event")
		require.Contains(t, log.String(), "run_id=m1")
	})
}
