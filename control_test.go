package phxworker_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker"
	"github.com/phxworker/phxworker/channel"
	"github.com/phxworker/phxworker/mockserver"
	"github.com/phxworker/phxworker/mockserver/fault"
	"github.com/phxworker/phxworker/runner"
	"github.com/phxworker/phxworker/slots"
)

func TestAPauseOfOneGroupLeavesTheOthersAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := openHouse(t, quiet)
		worker, _ := h.hire(phxworker.Config{Groups: slots.MustParse("fast_lane:1 manual:1")})
		settle(time.Second)
		require.NoError(t, worker.Pause("manual"))
		h.enqueue("fast_lane", "f")
		h.enqueue("manual", "m")
		settle(time.Minute)
		require.Equal(t, "started", h.state("f"))
		require.Equal(t, "available", h.state("m"))
		stats := worker.Stats()
		require.False(t, stats.Groups[0].Paused)
		require.True(t, stats.Groups[1].Paused)

		require.NoError(t, worker.Resume(""))
		settle(0)
		require.Equal(t, "started", h.state("m"))
	})
}

func TestAPausedWorkerFinishesItsRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := openHouse(t, quiet)
		h.enqueue("manual", "a", "b")
		var log bytes.Buffer
		worker, stop := h.hire(phxworker.Config{Groups: slots.MustParse("manual:1"), Logger: slog.New(slog.NewTextHandler(&log, nil))})
		settle(time.Second)
		require.NoError(t, worker.Pause(""))
		h.gate.release("a")
		settle(time.Hour)
		require.Equal(t, "success", h.state("a"))
		require.Equal(t, "available", h.state("b"))
		require.NoError(t, stop())
	})
}

func TestControlsSayWhatIsWrong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := openHouse(t, quiet)
		idle, err := phxworker.New(phxworker.Config{URL: "ws://lightning.test/worker", Secret: "s", Engine: phxworker.Func(h.gate.hold)})
		require.NoError(t, err)
		_, err = idle.Claim(t.Context())
		require.ErrorIs(t, err, phxworker.ErrNotRunning)
		require.ErrorIs(t, idle.Pause(""), phxworker.ErrNotRunning)
		require.ErrorIs(t, idle.Cancel("x"), phxworker.ErrNotRunning)
		require.Equal(t, phxworker.PhaseNew, idle.Stats().Phase)

		worker, stop := h.hire(phxworker.Config{Groups: slots.MustParse("fast_lane:1 manual>*:4")})
		settle(time.Second)
		require.EqualError(t, worker.Resume("bogus"), `there is no slot group "bogus"; the groups are fast_lane, manual>*`)
		require.EqualError(t, worker.Resize("manual", 2), `there is no slot group "manual"; the groups are fast_lane, manual>*`)
		require.EqualError(t, worker.Resize("fast_lane", 0), "a group cannot have 0 slots: give from 1 to 1000000; to stop its claims, pause it")
		require.ErrorContains(t, worker.Resize("fast_lane", slots.MaxGroupSlots+1), "1000001 slots: give from 1 to 1000000", "as of a group")
		require.Equal(t, 1, worker.Stats().Groups[0].Size)
		require.ErrorIs(t, worker.Cancel("x"), phxworker.ErrNoRun)
		require.NoError(t, stop())
		require.ErrorIs(t, worker.Pause(""), phxworker.ErrNotRunning)
		require.Equal(t, phxworker.PhaseStopped, worker.Stats().Phase)
	})
}

// Whoever reads /status need not ask whether a list or an object is there.
func TestStatsHaveNoNulls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := openHouse(t, quiet)
		worker, stop := h.hireWith(phxworker.Config{}, func(worker *phxworker.Worker) {
			before, err := json.Marshal(worker.Stats())
			require.NoError(t, err)
			require.NotContains(t, string(before), "null")
		})
		settle(time.Second)
		now, err := json.Marshal(worker.Stats())
		require.NoError(t, err)
		require.NotContains(t, string(now), "null")
		require.NoError(t, stop())
	})
}

func TestAResizeCountsAtOnceAndIsToldAtTheNextJoin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := openHouse(t, quiet)
		h.enqueue("manual", "a", "b", "c", "d")
		worker, _ := h.hire(phxworker.Config{Groups: slots.MustParse("manual>*:1")})
		settle(time.Second)
		require.Equal(t, 3, h.server.Stats().Available)
		require.NoError(t, worker.Resize("manual>*", 3))
		settle(0)
		require.Equal(t, 1, h.server.Stats().Available)
		require.NoError(t, worker.Resize("manual>*", 1))
		h.gate.release("a")
		settle(time.Minute)
		require.Equal(t, 1, h.server.Stats().Available, "two runs are one too many already")

		h.cut()
		settle(time.Minute)
		require.Equal(t, []string{`{"capacity":1,"queues":{"manual>*":1}` + offered(), `{"capacity":1,"queues":{"manual>*":1}` + offered()}, joinsOf(h))
		require.NoError(t, worker.Resize("manual>*", 7))
		h.cut()
		settle(time.Minute)
		require.Equal(t, `{"capacity":7,"queues":{"manual>*":7}`+offered(), joinsOf(h)[2])
	})
}

// joinsOf returns the payloads of the joins of the queue.
func joinsOf(h *house) (payloads []string) {
	for _, join := range h.sent("phx_join") {
		if join.topic == "worker:queue" {
			payloads = append(payloads, join.payload)
		}
	}
	return payloads
}

func TestACancelledRunIsReportedSoAndItsSlotComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := openHouse(t, quiet)
		h.enqueue("manual", "a", "b", "c")
		worker, stop := h.hire(phxworker.Config{Groups: slots.MustParse("manual:2")})
		settle(time.Second)
		require.NoError(t, worker.Cancel("a"))
		settle(0)
		require.Equal(t, "cancelled", h.state("a"))
		require.Equal(t, "started", h.state("b"))
		require.Equal(t, "started", h.state("c"))
		record, _ := h.server.Inspect("a")
		require.Equal(t, "RunCancelled", record.ErrorType)
		require.ErrorIs(t, worker.Cancel("a"), phxworker.ErrNoRun)
		h.gate.release("b")
		h.gate.release("c")
		require.NoError(t, stop(), "a cancelled run is no aborted worker")
	})
}

func TestDrainEndsTheWorkerInGoodOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := openHouse(t, quiet)
		h.enqueue("manual", "a")
		worker, stop := h.hire(phxworker.Config{})
		settle(time.Second)
		worker.Drain()
		worker.Drain()
		h.enqueue("manual", "b")
		settle(time.Minute)
		require.Equal(t, phxworker.PhaseDraining, worker.Stats().Phase)
		require.Equal(t, "started", h.state("a"))
		h.gate.release("a")
		settle(0)
		require.Equal(t, phxworker.PhaseStopped, worker.Stats().Phase)
		require.Equal(t, "success", h.state("a"))
		require.Equal(t, "available", h.state("b"))
		require.NoError(t, stop())
	})
}

func TestAManualWorkerClaimsOnlyWhenTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := openHouse(t, quiet)
		h.enqueue("default", "a", "b")
		worker, _ := h.hire(phxworker.Config{Claim: phxworker.Claim{Manual: true}, Groups: slots.MustParse("fast_lane:1 manual>*:1")})
		settle(time.Hour)
		require.Empty(t, h.sent("claim"))

		claimed, err := worker.Claim(t.Context())
		require.NoError(t, err)
		require.True(t, claimed)
		settle(time.Minute)
		require.Equal(t, "started", h.state("a"))
		require.Len(t, h.claimsOf("fast_lane"), 1, "it has nothing")
		require.Len(t, h.claimsOf("manual", "*"), 1)

		claimed, err = worker.Claim(t.Context())
		require.NoError(t, err)
		require.False(t, claimed, "no slot is free in the group that could have it")
		require.Equal(t, "available", h.state("b"))
	})
}

func TestAClaimOnRequestEndsWithTheWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := openHouse(t, quiet)
		worker, stop := h.hire(phxworker.Config{Secret: "wrong", Claim: phxworker.Claim{Manual: true}}) // never on the queue
		settle(time.Second)
		asked := make(chan error)
		for range 2 { // the second waits for the first
			go func() {
				_, err := worker.Claim(t.Context())
				asked <- err
			}()
		}
		settle(time.Second)
		require.NoError(t, stop())
		for range 2 {
			require.ErrorIs(t, <-asked, phxworker.ErrDraining)
		}
	})
}

func TestBatchesOfLinesOnTheWire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := openHouse(t, quiet)
		h.enqueue("manual", "a")
		engine := phxworker.Func(func(_ context.Context, run *phxworker.Run) (any, error) {
			for i := range 7 {
				run.Print(i)
			}
			return nil, nil
		})
		h.hire(phxworker.Config{Engine: engine, Delivery: phxworker.Delivery{BatchLogs: phxworker.BatchLogs{Interval: 10 * time.Millisecond, Limit: 5}}})
		settle(time.Minute)
		var sizes []int
		for _, f := range h.sent("run:batch_logs") {
			var body struct{ Logs []json.RawMessage }
			require.NoError(t, json.Unmarshal([]byte(f.payload), &body))
			sizes = append(sizes, len(body.Logs))
		}
		require.Equal(t, []int{5, 3}, sizes)
		require.Empty(t, h.sent("run:log"))
	})
}

func TestTheGateIsAskedForEachGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := openHouse(t, quiet)
		h.enqueue("fast_lane", "f")
		h.enqueue("manual", "m")
		worker, _ := h.hire(phxworker.Config{Groups: slots.MustParse("fast_lane:1 manual:1"), Hooks: phxworker.Hooks{Gate: func(_ context.Context, group string) error {
			if group == "manual" {
				return errors.New("no disk")
			}
			return nil
		}}})
		settle(4 * time.Minute)
		require.Equal(t, "started", h.state("f"))
		require.Equal(t, "available", h.state("m"))
		require.Greater(t, worker.Stats().Groups[1].HeldBack, uint64(20))
		require.Zero(t, worker.Stats().Groups[1].Claims.Total())
	})
}

func TestMiddlewareAndTheHookAfterARun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := openHouse(t, quiet)
		h.enqueue("manual", "a", "b")
		results := make(chan phxworker.RunResult)
		var log bytes.Buffer
		worker, stop := h.hire(phxworker.Config{
			Groups: slots.MustParse("manual:1"),
			Engine: phxworker.Func(func(ctx context.Context, _ *phxworker.Run) (any, error) { return ctx.Value(key{}), nil }),
			Hooks: phxworker.Hooks{Middleware: []phxworker.Middleware{func(next phxworker.ExecuteFunc) phxworker.ExecuteFunc {
				return func(ctx context.Context, run *phxworker.Run) (phxworker.Result, error) {
					return next(context.WithValue(ctx, key{}, map[string]string{"of": run.ID}), run)
				}
			}}, AfterRun: func(result phxworker.RunResult) {
				results <- result
				panic("the hook is broken by hunter22, which is the password of the run")
			}},
			Logger: slog.New(slog.NewTextHandler(&log, nil)),
		})
		settle(time.Minute)
		for _, id := range []string{"a", "b"} {
			require.Equal(t, 1, worker.Stats().Groups[0].Running, "the slot is still the run's")
			result := <-results
			settle(time.Second)
			require.Equal(t, []string{id, "manual", "success"}, []string{result.RunID, result.Group, string(result.Reason)})
			record, _ := h.server.Inspect(id)
			require.JSONEq(t, `{"of":"`+id+`"}`, string(record.FinalState))
		}
		require.NoError(t, stop())
		require.Contains(t, log.String(), `msg="panic in AfterRun" run_id=a group=manual panic="a string,`)
		require.NotContains(t, log.String(), "hunter22")
		require.Len(t, worker.Stats().Results, 2)
		require.Equal(t, "b", worker.Stats().Results[0].RunID, "the latest first")
	})
}

type key struct{}

// told returns the events so far, without their times.
func told(s *phxworker.Subscription) (events []phxworker.Event) {
	synctest.Wait()
	for {
		select {
		case e, open := <-s.Events():
			if !open {
				return events
			}
			e.At, e.Result = time.Time{}, nil
			events = append(events, e)
		default:
			return events
		}
	}
}

func TestASubscriptionTellsAWorkersLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := openHouse(t, quiet)
		var events *phxworker.Subscription
		worker, stop := h.hireWith(phxworker.Config{Groups: slots.MustParse("manual:1")}, func(w *phxworker.Worker) { events = w.Subscribe(100) })
		settle(time.Second) // the connection is watched from aside
		h.enqueue("manual", "a")
		settle(time.Minute)
		require.Equal(t, []phxworker.Event{
			{Kind: phxworker.EventConnected},
			{Kind: phxworker.EventClaimed, Group: "manual", RunID: "a"},
			{Kind: phxworker.EventStarted, Group: "manual", RunID: "a"},
		}, told(events))

		h.cut()
		settle(time.Minute)
		lost := told(events)
		require.Equal(t, phxworker.EventLost, lost[0].Kind)
		require.ErrorContains(t, lost[0].Err, "the connection was lost") // with or without the cause
		require.Equal(t, []phxworker.Event{{Kind: phxworker.EventConnected}}, lost[1:])

		require.NoError(t, worker.Pause("manual"))
		require.NoError(t, worker.Resume("manual"))
		stopped := make(chan error)
		go func() { stopped <- stop() }()
		synctest.Wait()
		h.gate.release("a")
		require.NoError(t, <-stopped)
		require.Equal(t, []phxworker.Event{
			{Kind: phxworker.EventPaused, Group: "manual"},
			{Kind: phxworker.EventResumed, Group: "manual"},
			{Kind: phxworker.EventDraining},
			{Kind: phxworker.EventCompleted, Group: "manual", RunID: "a"},
		}, told(events))
		_, open := <-events.Events()
		require.False(t, open)
		_, open = <-worker.Subscribe(1).Events()
		require.False(t, open, "nothing will come any more")
		events.Close()
	})
}

func TestAnEventTellsHowARunEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := openHouse(t, quiet)
		h.enqueue("manual", "a", "b")
		var events *phxworker.Subscription
		h.hireWith(phxworker.Config{Groups: slots.MustParse("manual:1")}, func(w *phxworker.Worker) { events = w.Subscribe(100) })
		_, err := h.server.AddFault(fault.Rule{Action: fault.Refuse, Event: "run:complete", Run: "b", Response: []byte(`"no"`), Count: -1})
		require.NoError(t, err)
		begin := time.Now().UTC()
		settle(time.Second)
		h.gate.release("a")
		settle(time.Second)
		h.gate.release("b")
		settle(time.Second)
		var results []phxworker.RunResult
		var kinds []phxworker.EventKind
		for len(results) < 2 {
			if e := <-events.Events(); e.Result != nil {
				results, kinds = append(results, *e.Result), append(kinds, e.Kind)
			}
		}
		require.Equal(t, []phxworker.EventKind{phxworker.EventCompleted, phxworker.EventUndelivered}, kinds)
		require.Equal(t, phxworker.RunResult{
			Outcome: runner.Outcome{RunID: "a", Reason: "success", Joined: true, Settled: runner.Processed},
			Group:   "manual", Claimed: begin, Started: begin, Ended: begin.Add(time.Second), Lasted: 1,
		}, results[0])
		require.ErrorContains(t, results[1].Err, "takes run:complete in no form")
		require.Equal(t, "b", results[1].RunID)
	})
}

func TestASlowSubscriberIsNotWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := openHouse(t, quiet)
		worker, _ := h.hire(phxworker.Config{Groups: slots.MustParse("manual:1")})
		settle(time.Second) // connected
		slow, closed := worker.Subscribe(2), worker.Subscribe(0)
		closed.Close()
		closed.Close()
		for range 5 {
			require.NoError(t, worker.Pause(""))
		}
		require.Equal(t, []phxworker.Event{{Kind: phxworker.EventPaused, Group: "manual"}, {Kind: phxworker.EventPaused, Group: "manual"}}, told(slow))
		require.NoError(t, worker.Resume(""))
		require.Equal(t, []phxworker.Event{{Kind: phxworker.EventResumed, Group: "manual", Missed: 3}}, told(slow))
		_, open := <-closed.Events()
		require.False(t, open)
	})
}

func TestStatsAnswerAnOperatorsQuestions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := openHouse(t, quiet)
		begin := time.Now()
		worker, stop := h.hire(phxworker.Config{Groups: slots.MustParse("fast_lane:1 manual>*:2"), Engine: phxworker.Func(h.gate.inSteps)})
		settle(2 * time.Second)
		h.enqueue("manual", "a")
		settle(10 * time.Second)

		stats := worker.Stats()
		require.Equal(t, phxworker.PhaseRunning, stats.Phase)
		require.Equal(t, "connected", stats.Connection.State)
		require.Equal(t, 1, stats.Connection.Sockets)
		require.Equal(t, phxworker.QueueStats{Joined: true, Since: begin.UTC(), For: 12, Joins: 1, Extensions: []string{}}, stats.Queue)
		require.Equal(t, []string{"fast_lane", "manual>*"}, []string{stats.Groups[0].Name, stats.Groups[1].Name})
		require.Equal(t, 1, stats.Groups[1].Running)
		require.Len(t, stats.Runs, 1)
		run := stats.Runs[0]
		require.Equal(t, runner.Executing, run.Phase)
		require.Equal(t, "manual>*", run.Group)
		require.Equal(t, run.Started, run.Claimed)
		require.Equal(t, uint64(1), stats.Times.ClaimToStart.Count)
		require.Equal(t, stats.Groups[1].Claims.Total(), stats.Groups[1].Answered.Count)

		require.NoError(t, h.server.Restart(1006, time.Minute))
		settle(30 * time.Second)
		stats = worker.Stats()
		require.False(t, stats.Queue.Joined)
		require.Equal(t, begin.Add(12*time.Second).UTC(), stats.Queue.Since)
		require.Equal(t, uint64(1), stats.Connection.Lost[channel.CauseNetwork])
		require.Positive(t, stats.Connection.Lost[channel.CauseDial])
		settle(time.Minute)
		require.True(t, worker.Stats().Queue.Joined)

		h.gate.release("a")
		require.NoError(t, stop())
		stats = worker.Stats()
		require.Equal(t, phxworker.PhaseStopped, stats.Phase)
		require.Empty(t, stats.Runs)
		require.Equal(t, uint64(1), stats.Times.Run.Count)
		require.Positive(t, stats.Delivery.Acknowledged.Count)
	})
}

func TestAWakeUpIsTimedToTheBeginOfTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := openHouse(t, quiet)
		worker, _ := h.hire(phxworker.Config{Groups: slots.MustParse("manual:2")})
		settle(time.Second + 500*time.Millisecond)
		h.enqueue("manual", "a")
		_, err := h.server.AddFault(fault.Rule{Action: fault.Delay, When: fault.After, Event: "claim", Delay: 300 * time.Millisecond})
		require.NoError(t, err)
		h.server.Wake()
		settle(time.Second)
		require.Equal(t, "started", h.state("a"))
		stats := worker.Stats()
		require.Equal(t, uint64(1), stats.Times.WakeToStart.Count)
		require.InDelta(t, 0.3, stats.Times.WakeToStart.Sum, 1e-6)
		require.Equal(t, uint64(1), stats.Groups[0].Wakes)
	})
}

func TestSecondsInWords(t *testing.T) {
	for want, s := range map[string]phxworker.Seconds{
		"0 s": -1, "0.1 ms": 0.0001, "10 ms": 0.00996, "340 ms": 0.34, "1.0 s": 0.9996, "9.9 s": 9.94, "10 s": 9.96, "59 s": 59.4, "1 min 0 s": 59.6,
		"59 min 59 s": 3599, "1 h 0 min": 3600, "23 h 59 min": 86399, "4 d 2 h": 4*86400 + 2*3600,
	} {
		require.Equal(t, want, s.String())
	}
}

func TestARunThatWasTriedTooOftenIsPoisonous(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := extended(t, mockserver.Config{})
		h.enqueue("manual", "a")
		var times atomic.Int32
		h.hire(all(phxworker.Config{Groups: slots.MustParse("manual:1"), Engine: phxworker.Func(func(_ context.Context, run *phxworker.Run) (any, error) {
			require.EqualValues(t, times.Add(1), run.Attempt)
			return nil, phxworker.ErrRequeue
		})}))
		settle(10 * time.Minute)
		record := h.record("a")
		require.Equal(t, []string{"exception", "Poisonous", "this is attempt 4 of at most 3"}, []string{record.Reason, record.ErrorType, record.ErrorMessage})
		require.EqualValues(t, 3, times.Load())
	})
}

// withAdaptor makes a run whose one job needs the adaptor.
func (h *house) withAdaptor(id, adaptor string) {
	h.t.Helper()
	plan := `{"id":"` + id + `","jobs":[{"id":"j","adaptor":"` + adaptor + `","body":""}]}`
	h.put(mockserver.Run{Plan: json.RawMessage(plan), Queue: "manual"})
}

func TestARunIsAcceptedByWhoHasItsAdaptor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := extended(t, mockserver.Config{})
		common := runner.AcceptAdaptors("@openfn/language-common")
		h.withAdaptor("http", "@openfn/language-http@7.2.10")
		one, _ := h.hire(all(phxworker.Config{Groups: slots.MustParse("manual:1"), Name: "one", Hooks: phxworker.Hooks{Accept: common}}))
		settle(time.Second)
		h.withAdaptor("common", "@openfn/language-common@3.3.4")
		settle(10 * time.Second)
		require.Equal(t, "started", h.state("common"), "one that it does not want holds up no other")
		require.Positive(t, one.Stats().Delivery.Settled[runner.Returned])
		record := h.record("http")
		require.Equal(t, 1, record.Attempt, "it was never tried")
		require.Zero(t, h.taken("http", "fetch:dataclip")+h.taken("http", "run:start"), "nothing was begun")
		require.Equal(t, "available", string(record.State))

		h.hire(all(phxworker.Config{Groups: slots.MustParse("manual:1"), Name: "two", Hooks: phxworker.Hooks{Accept: runner.AcceptAdaptors("@openfn/language-http")}}))
		settle(10 * time.Second)
		require.Equal(t, "started", h.state("http"))
		require.Equal(t, "two", h.record("http").WorkerName)
	})
}

// Guards against a run that is called poisonous because nobody wanted it.
func TestARunThatWasNeverTriedIsNotPoisonous(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := extended(t, mockserver.Config{})
		h.withAdaptor("http", "@openfn/language-http")
		var log bytes.Buffer
		worker, stop := h.hire(all(phxworker.Config{
			Groups: slots.MustParse("manual:1"), Hooks: phxworker.Hooks{Accept: runner.AcceptAdaptors("@openfn/language-common")}, Logger: slog.New(slog.NewTextHandler(&log, nil)),
		}))
		settle(time.Hour)
		require.NoError(t, stop())
		require.Equal(t, "available", h.state("http"))
		require.Equal(t, 1, h.record("http").Attempt)
		require.Greater(t, worker.Stats().Delivery.Settled[runner.Returned], uint64(100))
		require.Empty(t, worker.Stats().Ended)
		require.Empty(t, worker.Stats().Results[0].Reason)
		require.Contains(t, log.String(), `msg="run returned to the queue" run_id=http group=manual settled=returned why="the adaptor @openfn/language-http is not for this worker`)
		require.NotContains(t, log.String(), "did not take it")
	})
}

func TestARunThatNobodyWantsMakesTheGroupRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := extended(t, mockserver.Config{})
		h.withAdaptor("http", "@openfn/language-http")
		worker, _ := h.hire(phxworker.Config{
			Groups: slots.MustParse("manual:1"), Extensions: []string{"release"}, Hooks: phxworker.Hooks{Accept: func(context.Context, *phxworker.Run) error { return phxworker.Postpone(time.Millisecond, "") }},
		})
		settle(time.Minute)
		require.Positive(t, worker.Stats().Groups[0].Claims.Exhausted)
		require.Less(t, len(h.sent("run:release")), 20, "not at the speed of the network")
	})
}

func TestAServerThatTakesNothingBackGetsItsRunsExecuted(t *testing.T) {
	for _, refuse := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			h := plain(t)
			h.withAdaptor("http", "@openfn/language-http")
			h.hire(all(phxworker.Config{Groups: slots.MustParse("manual:1"), Hooks: phxworker.Hooks{Accept: runner.AcceptAdaptors("@openfn/language-common"), RefuseUnsuitable: refuse}}))
			settle(time.Second)
			if !refuse {
				require.Equal(t, "started", h.state("http"))
				return
			}
			require.Equal(t, []string{"exception", "Requeued"}, []string{h.record("http").Reason, h.record("http").ErrorType})
		})
	}
}

func TestAcceptCanEndARun(t *testing.T) {
	tests := []struct {
		name         string
		accept       phxworker.AcceptFunc
		options      string
		kind, starts string
	}{
		{name: "discard", accept: func(context.Context, *phxworker.Run) error { return phxworker.Discard("too old") }, kind: "exception Discarded too old"},
		{name: "error", accept: func(context.Context, *phxworker.Run) error { return errors.New("no idea") }, kind: "exception AcceptError no idea"},
		{name: "panic", accept: func(context.Context, *phxworker.Run) error { panic("no") }, kind: "crash Panic panic: no"},
		{name: "deadline", options: `,"options":{"deadline_ms":946684800000}`, kind: "exception Discarded its deadline passed at 2000-01-01T00:00:00Z"},
		{name: "deadline to come", options: `,"options":{"deadline_ms":946685800000}`, kind: "success  "},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := openHouse(t, quiet)
				time.Sleep(time.Second)
				h.put(mockserver.Run{Plan: json.RawMessage(`{"id":"a","jobs":[{"id":"j"}]` + tt.options + `}`)})
				h.hire(phxworker.Config{Hooks: phxworker.Hooks{Accept: tt.accept}, Engine: phxworker.Func(func(context.Context, *phxworker.Run) (any, error) { return nil, nil })})
				settle(time.Minute)
				record := h.record("a")
				require.Equal(t, tt.kind, record.Reason+" "+record.ErrorType+" "+record.ErrorMessage)
			})
		})
	}
}
