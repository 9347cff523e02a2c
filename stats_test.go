package phxworker_test

import (
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker"
	"github.com/phxworker/phxworker/channel"
	"github.com/phxworker/phxworker/mockserver/fault"
	"github.com/phxworker/phxworker/runner"
	"github.com/phxworker/phxworker/slots"
)

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
			Outcome: runner.Outcome{
				RunID: "a", Reason: "success", Joined: true, Settled: runner.Processed,
				Group: "manual", Claimed: begin, Started: begin, Ended: begin.Add(time.Second),
			},
			Lasted: 1,
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
