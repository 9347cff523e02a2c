package phxworker_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker"
	"github.com/phxworker/phxworker/mockserver"
	"github.com/phxworker/phxworker/mockserver/fault"
	"github.com/phxworker/phxworker/runner"
	"github.com/phxworker/phxworker/slots"
)

// duringAnOutage is what may happen to a worker while the server is away, and is to be
// so when it is back. Each keeps a worker from claiming that has one run and a slot to spare.
var duringAnOutage = map[string]func(t *testing.T, s *stranded){
	"paused":  func(t *testing.T, s *stranded) { require.NoError(t, s.worker.Pause("")) },
	"resized": func(t *testing.T, s *stranded) { require.NoError(t, s.worker.Resize("manual", 1)) },
	"gated":   func(_ *testing.T, s *stranded) { s.full.Store(true) },
	"drained": func(_ *testing.T, s *stranded) { s.worker.Drain() },
	"asked": func(t *testing.T, s *stranded) { // for a claim, by someone who has no patience
		require.NoError(t, s.worker.Pause(""))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		brought, err := s.worker.Claim(ctx)
		require.False(t, brought)
		if s.worker.Stats().Groups[0].Open > 0 && !errors.Is(err, phxworker.ErrDraining) { // else there is nothing to wait for
			require.ErrorIs(t, err, context.DeadlineExceeded)
		}
	},
}

// stranded is a worker with two slots and one run whose server is away.
type stranded struct {
	*house
	worker *phxworker.Worker
	full   atomic.Bool // whether the gate holds claims back
	stop   func() error
}

func strand(t *testing.T, cfg phxworker.Config) *stranded {
	t.Helper()
	s := &stranded{house: openHouse(t, quiet)}
	cfg.Groups, cfg.Limits.RunTimeout = slots.MustParse("manual:2"), time.Hour
	cfg.Hooks.Gate = func(context.Context, string) error {
		if s.full.Load() {
			return errors.New("the disk is full")
		}
		return nil
	}
	s.enqueue("manual", "a")
	s.worker, s.stop = s.hire(cfg)
	settle(time.Minute)
	require.Equal(t, "started", s.state("a"))
	s.away.Store(true)
	s.cut()
	settle(time.Minute) // the loop would claim if it could
	s.enqueue("manual", "b")
	return s
}

func (s *stranded) back() {
	s.away.Store(false)
	settle(5 * time.Minute)
}

// Guards against a loop that has decided to claim before the connection was lost, or while it
// was, and claims when it is back whatever was decided since.
func TestNothingIsDecidedBeforeTheQueueIsJoined(t *testing.T) {
	for first, one := range duringAnOutage {
		for second, other := range duringAnOutage {
			t.Run(first+", "+second, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := strand(t, phxworker.Config{})
					claims := len(s.sent("claim"))
					one(t, s)
					settle(time.Minute)
					if first != "drained" { // it takes no more orders
						other(t, s)
					}
					s.back()
					require.Len(t, s.sent("claim"), claims)
					require.Equal(t, "available", s.state("b"))
					s.gate.release("a")
					require.NoError(t, s.stop())
					require.Equal(t, "success", s.state("a"))
				})
			})
		}
	}
}

func TestAnOutageEndsWithAClaimAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := strand(t, phxworker.Config{})
		s.away.Store(false)
		for s.worker.Stats().Queue.Joins < 2 {
			time.Sleep(10 * time.Millisecond)
		}
		settle(10 * time.Millisecond)
		require.Equal(t, "started", s.state("b"))
	})
}

// Whoever asks for a claim and waits has it put when the server is back, and no other.
func TestAClaimOnRequestWaitsForTheEndOfAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := strand(t, phxworker.Config{})
		require.NoError(t, s.worker.Pause(""))
		claims := len(s.sent("claim"))
		brought := make(chan bool)
		go func() {
			claimed, err := s.worker.Claim(t.Context())
			if err != nil {
				t.Error(err)
			}
			brought <- claimed
		}()
		s.back()
		require.True(t, <-brought)
		require.Len(t, s.sent("claim"), claims+1)
		require.Equal(t, "started", s.state("b"))
	})
}

// A worker that never reached its server stands with both feet outside: what is decided there holds, too.
func TestAPauseBeforeTheFirstJoinHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := openHouse(t, quiet)
		h.enqueue("manual", "a")
		h.away.Store(true)
		worker, _ := h.hire(phxworker.Config{})
		settle(time.Minute)
		require.NoError(t, worker.Pause(""))
		h.away.Store(false)
		settle(5 * time.Minute)
		require.Empty(t, h.sent("claim"))
		require.Equal(t, 0, strings.Count(h.state("a"), "started"))
		require.NoError(t, worker.Resume(""))
		settle(time.Second)
		require.Equal(t, "started", h.state("a"))
	})
}

// While there is no connection, no slot is kept for a claim that cannot be put.
func TestAnOutageKeepsNoSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := strand(t, phxworker.Config{})
		require.Equal(t, 1, s.worker.Stats().Groups[0].Open)
		require.Zero(t, s.worker.Stats().Groups[0].Claimed)
	})
}

// refuseTheQueue makes the server refuse the next rejoins of the queue, which would end
// any other topic.
func (h *house) refuseTheQueue(times int) {
	h.t.Helper()
	h.fail(fault.Rule{Event: fault.Join, Topic: "worker:queue", Action: fault.Refuse, Response: json.RawMessage(`{"reason":"unauthorized"}`), Count: times})
	h.cut()
}

// Guards against a worker that looks alive and never claims again, because the
// server would not let it back on the queue once.
func TestAQueueThatIsLostIsJoinedAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := openHouse(t, quiet)
		worker, stop := h.hire(phxworker.Config{Groups: slots.MustParse("manual:1")})
		settle(time.Second)
		h.refuseTheQueue(8)
		settle(time.Second)
		require.False(t, worker.Stats().Queue.Joined)
		h.enqueue("manual", "a")
		settle(2 * time.Minute)
		require.Equal(t, "started", h.state("a"))
		require.True(t, worker.Stats().Queue.Joined)
		require.Equal(t, 2, worker.Stats().Queue.Joins)
		h.gate.release("a")
		require.NoError(t, stop())
	})
}

func TestAStopDoesNotWaitForTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := openHouse(t, quiet)
		_, stop := h.hire(phxworker.Config{Groups: slots.MustParse("manual:1")})
		settle(time.Second)
		h.refuseTheQueue(-1)
		settle(10 * time.Minute) // the pauses are long by now
		begin := time.Now()
		require.NoError(t, stop())
		require.Zero(t, time.Since(begin))
	})
}

// Bugs that other workers had, each through the whole worker and over the wire.

// fail makes the server misbehave.
func (h *house) fail(r fault.Rule) {
	h.t.Helper()
	_, err := h.server.AddFault(r)
	require.NoError(h.t, err)
}

// inSteps executes a run in one step, which waits for the gate.
func (g *gate) inSteps(ctx context.Context, run *phxworker.Run) (any, error) {
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
					worker, _ := h.hire(phxworker.Config{Engine: phxworker.Func(h.gate.inSteps)})
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
		_, stop := h.hire(phxworker.Config{})
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
		h.hire(phxworker.Config{Groups: slots.MustParse("manual>*:1")})
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
		worker, stop := h.hire(phxworker.Config{Engine: phxworker.Func(h.gate.inSteps)})
		settle(time.Second)
		worker.Abort()
		require.ErrorIs(t, stop(), phxworker.ErrAborted)
		require.Equal(t, "cancelled", h.state("m1"), "even across a reconnect")
		require.Zero(t, worker.Stats().Undelivered)
	})
}

// Guards against an abandoned dial that leaves its connection open.
func TestTrapAnAbandonedDialIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := openHouse(t, quiet)
		h.fail(fault.Rule{Event: fault.Connect, Action: fault.Delay, Delay: time.Hour, Count: -1})
		_, stop := h.hire(phxworker.Config{})
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
				h.hire(phxworker.Config{})
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
		h.hire(phxworker.Config{Engine: phxworker.Func(func(ctx context.Context, run *phxworker.Run) (any, error) {
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
		_, stop := h.hire(phxworker.Config{Engine: phxworker.Func(h.gate.inSteps), Logger: slog.New(slog.NewTextHandler(&log, nil))})
		settle(time.Second)
		require.NoError(t, stop())
		require.Contains(t, h.sent("run:log")[1].payload, "it was left out", "a note stands in its place")
		require.Equal(t, 2, h.taken("m1", "run:log"), "the note and the status")
		require.Contains(t, log.String(), "the server does not take an event")
		require.Contains(t, log.String(), "run_id=m1")
	})
}

// Guards against a rejoin with a token that has expired, tried for ever.
func TestTrapATokenThatExpiredWhileTheWorkerWasAway(t *testing.T) {
	for _, reason := range []string{"unauthorized", "not_found"} {
		t.Run(reason, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := openHouse(t, quiet)
				h.enqueue("manual", "m1")
				dir := t.TempDir()
				worker, stop := h.hire(phxworker.Config{Engine: phxworker.Func(h.gate.inSteps), Delivery: phxworker.Delivery{Spool: dir}})
				settle(time.Second)
				if reason == "unauthorized" {
					require.NoError(t, h.server.ExpireToken("m1"))
				} else {
					h.fail(fault.Rule{Event: fault.Join, Run: "m1", Action: fault.Refuse, Response: json.RawMessage(`{"reason":"not_found"}`), Count: -1})
				}
				h.cut()
				settle(10 * time.Minute)
				joins := 0
				for _, f := range h.sent("phx_join") {
					if f.topic == "run:m1" {
						joins++
					}
				}
				require.Equal(t, 2, joins, "the first, and the one that was refused")
				require.Equal(t, 1, worker.Stats().Undelivered)
				require.Zero(t, worker.Stats().Groups[0].Running, "its slot is free")
				spooled, err := readSpool(dir)
				require.NoError(t, err)
				require.Len(t, spooled, 1)
				require.Contains(t, spooled[0].Cause, reason)
				require.NoError(t, stop())
			})
		})
	}
}

// Guards against a reply that never comes, on a join that lives: it would hold the
// run's slot for as long as the connection lasts.
func TestTrapAReplyThatNeverComesFreesTheSlot(t *testing.T) {
	tests := []struct {
		event  string
		fetch  bool
		pushes int // each wait is twice as long as the one before
		joins  int
	}{
		{event: "fetch:plan", fetch: true, pushes: 3, joins: 4},
		{event: "fetch:dataclip", fetch: true, pushes: 3, joins: 4},
		{event: "step:start", pushes: 4, joins: 4},
		{event: "run:complete", pushes: 4, joins: 4},
	}
	for _, tt := range tests {
		t.Run(tt.event, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := openHouse(t, mockserver.Config{WakeDebounce: quiet.WakeDebounce}) // whose tokens tell their end
				plan := `{"id":"m1","dataclip_id":"d","jobs":[{"id":"j","body":"fn(s => s)"}]}`
				h.put(mockserver.Run{Plan: json.RawMessage(plan), Dataclip: json.RawMessage(`{}`), Queue: "manual"})
				h.enqueue("manual", "m2")
				h.fail(fault.Rule{Event: tt.event, Run: "m1", Action: fault.Withhold, Count: -1})
				h.gate.release("m1")
				worker, stop := h.hire(phxworker.Config{Groups: slots.MustParse("manual>*:1"), Engine: phxworker.Func(h.gate.inSteps)})
				settle(5 * time.Minute)
				if tt.fetch {
					require.Equal(t, "exception", h.state("m1"), "the server hears why")
				} else {
					require.Equal(t, "available", h.state("m2"), "the token of m1 is good, and its answer may still come")
				}
				settle(2 * time.Minute)
				require.Equal(t, "started", h.state("m2"))
				if !tt.fetch {
					require.Equal(t, 1, worker.Stats().Undelivered)
				}
				ofOther := func(f sentFrame) bool { return f.topic != "run:m1" }
				require.Len(t, slices.DeleteFunc(h.sent(tt.event), ofOther), tt.pushes)
				require.Len(t, slices.DeleteFunc(h.sent("phx_join"), ofOther), tt.joins, "nothing is sent twice on a live join")
				h.gate.release("m2")
				require.NoError(t, stop())
			})
		})
	}
}

// Guards against a run that is lost over a proxy which says 403 while the server restarts:
// channel.Socket.Join ends then, unless it is told to wait.
func TestARunWaitsWhileTheServerRefusesItsWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := quiet
		cfg.Faults = []fault.Rule{
			{Event: "join", Topic: "run:*", Action: fault.Drop, When: fault.Before},
			{Event: fault.Connect, Skip: 1, Count: 3, Action: fault.Refuse, Code: 403},
		}
		h := openHouse(t, cfg)
		h.enqueue("manual", "m0")
		h.hire(phxworker.Config{Groups: slots.MustParse("manual>*:1"), Engine: phxworker.Func(func(context.Context, *phxworker.Run) (any, error) { return nil, nil })}) //nolint:nilnil // a run without a final state
		settle(time.Minute)
		require.EqualValues(t, 1, h.server.Stats().Ended["success"])
		require.Len(t, h.server.Faults(), 4)
	})
}
