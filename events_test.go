package phxworker

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/channel"
	"github.com/phxworker/phxworker/mockserver/fault"
	"github.com/phxworker/phxworker/runner"
)

// told returns the events so far, without their times.
func told(s *Subscription) (events []Event) {
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
		var events *Subscription
		worker, stop := h.hireWith(Config{Groups: "manual:1"}, func(w *Worker) { events = w.Subscribe(100) })
		settle(time.Second) // the connection is watched from aside
		h.enqueue("manual", "a")
		settle(time.Minute)
		require.Equal(t, []Event{
			{Kind: EventConnected},
			{Kind: EventClaimed, Group: "manual", RunID: "a"},
			{Kind: EventStarted, Group: "manual", RunID: "a"},
		}, told(events))

		h.cut()
		settle(time.Minute)
		lost := told(events)
		require.Equal(t, EventLost, lost[0].Kind)
		require.ErrorContains(t, lost[0].Err, "the connection was lost") // with or without the cause
		require.Equal(t, []Event{{Kind: EventConnected}}, lost[1:])

		require.NoError(t, worker.Pause("manual"))
		require.NoError(t, worker.Resume("manual"))
		stopped := make(chan error)
		go func() { stopped <- stop() }()
		synctest.Wait()
		h.gate.release("a")
		require.NoError(t, <-stopped)
		require.Equal(t, []Event{
			{Kind: EventPaused, Group: "manual"},
			{Kind: EventResumed, Group: "manual"},
			{Kind: EventDraining},
			{Kind: EventCompleted, Group: "manual", RunID: "a"},
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
		var events *Subscription
		h.hireWith(Config{Groups: "manual:1"}, func(w *Worker) { events = w.Subscribe(100) })
		_, err := h.server.AddFault(fault.Rule{Action: fault.Refuse, Event: "run:complete", Run: "b", Response: []byte(`"no"`), Count: -1})
		require.NoError(t, err)
		begin := time.Now()
		settle(time.Second)
		h.gate.release("a")
		settle(time.Second)
		h.gate.release("b")
		settle(time.Second)
		var results []RunResult
		var kinds []EventKind
		for len(results) < 2 {
			if e := <-events.Events(); e.Result != nil {
				results, kinds = append(results, *e.Result), append(kinds, e.Kind)
			}
		}
		require.Equal(t, []EventKind{EventCompleted, EventUndelivered}, kinds)
		require.Equal(t, RunResult{
			Outcome: runner.Outcome{RunID: "a", Reason: "success", Joined: true, Settled: runner.Processed, Took: time.Second},
			Group:   "manual", Claimed: begin, Started: begin, Ended: begin.Add(time.Second),
		}, results[0])
		require.ErrorContains(t, results[1].Err, "takes run:complete in no form")
		require.Equal(t, "b", results[1].RunID)
	})
}

func TestASlowSubscriberIsNotWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := openHouse(t, quiet)
		worker, _ := h.hire(Config{Groups: "manual:1"})
		settle(time.Second) // connected
		slow, closed := worker.Subscribe(2), worker.Subscribe(0)
		closed.Close()
		closed.Close()
		for range 5 {
			require.NoError(t, worker.Pause(""))
		}
		require.Equal(t, []Event{{Kind: EventPaused, Group: "manual"}, {Kind: EventPaused, Group: "manual"}}, told(slow))
		require.NoError(t, worker.Resume(""))
		require.Equal(t, []Event{{Kind: EventResumed, Group: "manual", Missed: 3}}, told(slow))
		_, open := <-closed.Events()
		require.False(t, open)
	})
}

func TestStatsAnswerAnOperatorsQuestions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := openHouse(t, quiet)
		begin := time.Now()
		worker, stop := h.hire(Config{Groups: "fast_lane:1 manual>*:2", Engine: Func(h.gate.inSteps)})
		settle(2 * time.Second)
		h.enqueue("manual", "a")
		settle(10 * time.Second)

		stats := worker.Stats()
		require.Equal(t, PhaseRunning, stats.Phase)
		require.Equal(t, channel.Connected, stats.Socket.State)
		require.Equal(t, 1, stats.Socket.Open)
		require.Equal(t, QueueStats{Joined: true, Since: begin, Joins: 1, Extensions: []string{}}, stats.Queue)
		require.Equal(t, []string{"fast_lane", "manual>*"}, []string{stats.Groups[0].Name, stats.Groups[1].Name})
		require.Equal(t, 1, stats.Groups[1].Running)
		require.Len(t, stats.Runs, 1)
		run := stats.Runs[0]
		require.Equal(t, runner.Executing, run.Phase)
		require.Equal(t, "manual>*", run.Group)
		require.Equal(t, run.Started, run.Claimed)
		require.Equal(t, uint64(1), stats.ClaimToStart.Count)
		require.Equal(t, stats.Groups[1].Claims.Claims, stats.Groups[1].ClaimSeconds.Count)

		require.NoError(t, h.server.Restart(1006, time.Minute))
		settle(30 * time.Second)
		stats = worker.Stats()
		require.False(t, stats.Queue.Joined)
		require.Equal(t, begin.Add(12*time.Second), stats.Queue.Since)
		require.Equal(t, uint64(1), stats.Socket.Lost[channel.CauseNetwork])
		require.Positive(t, stats.Socket.Lost[channel.CauseDial])
		settle(time.Minute)
		require.True(t, worker.Stats().Queue.Joined)

		h.gate.release("a")
		require.NoError(t, stop())
		stats = worker.Stats()
		require.Equal(t, PhaseStopped, stats.Phase)
		require.Empty(t, stats.Runs)
		require.Equal(t, uint64(1), stats.RunSeconds.Count)
		require.Positive(t, stats.Delivery.Acknowledged.Count)
	})
}

func TestAWakeUpIsTimedToTheBeginOfTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := openHouse(t, quiet)
		worker, _ := h.hire(Config{Groups: "manual:2"})
		settle(time.Second + 500*time.Millisecond)
		h.enqueue("manual", "a")
		_, err := h.server.AddFault(fault.Rule{Action: fault.Delay, When: fault.After, Event: "claim", Delay: 300 * time.Millisecond})
		require.NoError(t, err)
		h.server.Wake()
		settle(time.Second)
		require.Equal(t, "started", h.state("a"))
		stats := worker.Stats()
		require.Equal(t, uint64(1), stats.WakeToStart.Count)
		require.InDelta(t, 0.3, stats.WakeToStart.Sum, 1e-6)
		require.Equal(t, uint64(1), stats.Groups[0].Claims.Wakes)
	})
}
