package phxworker_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker"
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
