package phxworker

import (
	"context"
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/mockserver"
	"github.com/phxworker/phxworker/mockserver/fault"
	"github.com/phxworker/phxworker/runner"
	"github.com/phxworker/phxworker/slots"
)

func TestARunWhoseTopicIsNotJoinedGoesToAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := extended(t, mockserver.Config{ClaimAck: 20 * time.Second})
		h.enqueue("manual", "a")
		h.fail(fault.Rule{Action: fault.Withhold, When: fault.After, Event: "claim"}) // its reply never comes
		h.hire(Config{Groups: slots.MustParse("manual:1"), Name: "deaf", Extensions: []string{extClaimAck}})
		settle(time.Second)
		h.hire(Config{Groups: slots.MustParse("manual:1"), Name: "other", Extensions: []string{extClaimAck}})
		settle(40 * time.Second)
		require.Equal(t, "started", h.state("a"))
		require.Equal(t, "other", h.record("a").WorkerName)
		require.Equal(t, int64(1), h.server.Stats().Extended.AcksMissed)
	})
}

func TestTheServerIsToldTheStatusAndTakesBackFromASilentWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := extended(t, mockserver.Config{Lease: time.Hour})
		h.enqueue("manual", "a")
		_, stop := h.hire(all(Config{Groups: slots.MustParse("fast_lane:1 manual:3"), Name: "one"}))
		settle(31 * time.Second)
		statuses := h.sent("worker:status")
		require.Len(t, statuses, 3, "at once, and each 15 s")
		require.JSONEq(t, `{"groups":{"fast_lane":{"slots":1,"open":0,"claimed":1,"running":0},"manual":{"slots":3,"open":1,"claimed":1,"running":1}},"runs":["a"],"draining":false}`, statuses[2].payload)

		h.fail(fault.Rule{Action: fault.Drop, When: fault.Before, Event: fault.Join, Worker: h.record("a").Owners[0].Worker, Count: -1})
		h.cut()
		h.hire(all(Config{Groups: slots.MustParse("manual:1"), Name: "two", Engine: Func(func(context.Context, *Run) (any, error) { return "two", nil })}))
		settle(time.Minute)
		record := h.record("a")
		require.Equal(t, "two", record.WorkerName)
		require.Equal(t, 2, record.Attempt)
		h.server.ClearFaults()
		h.gate.release("a")
		settle(time.Minute)
		require.Equal(t, "success", h.state("a"))
		require.Equal(t, 1, h.taken("a", "run:complete"))
		require.JSONEq(t, `{"value":"two"}`, string(h.record("a").FinalState))
		require.Positive(t, h.server.Stats().Extended.Stale, "what the first one had to say was not heard")
		require.NoError(t, stop())
	})
}

// Guards against a worker that a server takes for silent after each reconnect.
func TestAServerIsToldTheStatusAtEachJoin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := extended(t, mockserver.Config{})
		h.hire(all(Config{Groups: slots.MustParse("manual:1")}))
		settle(time.Second)
		h.cut()
		settle(10 * time.Second)
		require.Len(t, h.sent("worker:status"), 2, "less than the interval has passed")
	})
}

func TestTheServerCanDrainThePool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := extended(t, mockserver.Config{})
		h.enqueue("manual", "a")
		one, _ := h.hire(all(Config{Groups: slots.MustParse("manual:1")}))
		two, _ := h.hire(all(Config{Groups: slots.MustParse("manual:1")}))
		settle(time.Second)
		require.Equal(t, 2, h.server.DrainWorkers())
		h.enqueue("manual", "b")
		settle(time.Second)
		h.gate.release("a")
		settle(time.Second)
		require.Equal(t, []Phase{PhaseStopped, PhaseStopped}, []Phase{one.Stats().Phase, two.Stats().Phase})
		require.Equal(t, "success", h.state("a"))
		require.Equal(t, "available", h.state("b"))
		require.Zero(t, h.server.Stats().Workers)
	})
}

// noticed is a handler that takes notices.
type noticed struct {
	Func

	notices chan string
}

func (n noticed) Prepare(ctx context.Context, run *Run) (Execution, error) {
	execution, err := n.Func.Prepare(ctx, run)
	return listening{execution, func(_ context.Context, notice json.RawMessage) {
		n.notices <- run.ID + " " + string(notice)
		if string(notice) == `{"bad":true}` {
			panic("over a notice")
		}
	}}, err
}

// listening is an execution that takes notices.
type listening struct {
	Execution

	notify func(ctx context.Context, notice json.RawMessage)
}

var _ Notifiable = listening{}

func (l listening) Notify(ctx context.Context, notice json.RawMessage) { l.notify(ctx, notice) }

func TestAnOperatorNotifiesARun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := openHouse(t, quiet)
		h.enqueue("manual", "a")
		engine := noticed{Func: h.gate.hold, notices: make(chan string, 9)}
		worker, stop := h.hire(Config{Groups: slots.MustParse("manual:1"), Engine: engine})
		settle(time.Second)
		require.NoError(t, worker.Notify(t.Context(), "a", json.RawMessage(`{"n":1}`)))
		require.Equal(t, `a {"n":1}`, <-engine.notices)
		require.ErrorIs(t, worker.Notify(t.Context(), "b", json.RawMessage(`{}`)), ErrNoRun)
		h.gate.release("a")
		require.NoError(t, stop())
		require.ErrorIs(t, worker.Notify(t.Context(), "a", json.RawMessage(`{}`)), ErrNotRunning)
		require.Empty(t, engine.notices)
	})
}

func TestTheServerCancelsAndNotifiesRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := extended(t, mockserver.Config{})
		h.enqueue("manual", "a", "b")
		var cause error
		engine := noticed{notices: make(chan string, 9), Func: func(ctx context.Context, run *Run) (any, error) {
			state, err := h.gate.hold(ctx, run)
			if run.ID == "a" {
				cause = context.Cause(ctx)
			}
			return state, err
		}}
		worker, _ := h.hire(all(Config{Groups: slots.MustParse("manual:2"), Engine: engine}))
		settle(time.Second)
		require.NoError(t, h.server.Notify("b", json.RawMessage(`{"more":1}`)))
		require.NoError(t, h.server.Notify("b", json.RawMessage(`{"bad":true}`)))
		require.NoError(t, h.server.Cancel("a", "not needed any more"))
		settle(time.Second)
		require.Equal(t, []string{`b {"more":1}`, `b {"bad":true}`}, []string{<-engine.notices, <-engine.notices})
		require.ErrorIs(t, cause, runner.ErrCancelled)
		record := h.record("a")
		require.Equal(t, []string{"cancelled", "RunCancelled", "not needed any more"}, []string{string(record.State), record.ErrorType, record.ErrorMessage})
		require.Equal(t, "started", h.state("b"), "a panic over a notice has no other effect")
		require.Equal(t, uint64(1), worker.Stats().Delivery.Settled[runner.Cancelled])
		require.Equal(t, uint64(1), worker.Stats().Delivery.Panics)
	})
}

func TestWhatWasNotAgreedOnIsNotHeeded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := extended(t, mockserver.Config{})
		h.enqueue("manual", "a")
		worker, _ := h.hire(Config{Groups: slots.MustParse("manual:1"), Extensions: []string{}})
		settle(time.Second)
		require.Error(t, h.server.Cancel("a", ""))
		require.Error(t, h.server.Notify("a", json.RawMessage(`{}`)))
		require.Zero(t, h.server.DrainWorkers())
		settle(time.Second)
		require.Equal(t, "started", h.state("a"))
		require.Equal(t, PhaseRunning, worker.Stats().Phase)
	})
}

func TestAWorkerStopsAfterSoManyRunsOrSoLongWithout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := openHouse(t, quiet)
		h.enqueue("manual", "a", "b", "c")
		limited, _ := h.hire(Config{Groups: slots.MustParse("manual:1"), MaxRuns: 2})
		settle(time.Second)
		h.gate.release("a")
		settle(time.Second)
		require.Equal(t, PhaseDraining, limited.Stats().Phase)
		h.gate.release("b")
		settle(time.Second)
		require.Equal(t, PhaseStopped, limited.Stats().Phase)
		require.Equal(t, "available", h.state("c"))

		idle, _ := h.hire(Config{Groups: slots.MustParse("manual:1"), IdleTimeout: time.Minute})
		settle(2 * time.Minute)
		require.Equal(t, PhaseRunning, idle.Stats().Phase, "it has a run")
		h.gate.release("c")
		settle(59 * time.Second)
		require.Equal(t, PhaseRunning, idle.Stats().Phase)
		settle(2 * time.Second)
		require.Equal(t, PhaseStopped, idle.Stats().Phase)
	})
}
