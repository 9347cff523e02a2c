package phxworker

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

	"github.com/phxworker/phxworker/mockserver"
	"github.com/phxworker/phxworker/runner"
	"github.com/phxworker/phxworker/runner/terms"
	"github.com/phxworker/phxworker/slots"
)

func TestARunThatWasTriedTooOftenIsPoisonous(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := extended(t, mockserver.Config{})
		h.enqueue("manual", "a")
		var times atomic.Int32
		h.hire(all(Config{Groups: slots.MustParse("manual:1"), Engine: Func(func(_ context.Context, run *Run) (any, error) {
			require.EqualValues(t, times.Add(1), run.Attempt)
			return nil, ErrRequeue
		})}))
		settle(10 * time.Minute)
		record := h.record("a")
		require.Equal(t, []string{"exception", "Poisonous", "this is attempt 4 of at most 3"}, []string{record.Reason, record.ErrorType, record.ErrorMessage})
		require.EqualValues(t, 3, times.Load())
	})
}

// Guards against a delay that does not grow, for a number that does not count what it is
// said to.
func TestWhichAttemptARunIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := extended(t, mockserver.Config{})
		h.enqueue("manual", "a")
		var attempts []int
		refused := false
		accept := func(context.Context, *Run) error {
			if refused {
				return nil
			}
			refused = true
			return Requeue(10*time.Minute, "not here")
		}
		h.hire(all(Config{Groups: slots.MustParse("manual:1"), Hooks: Hooks{Accept: accept}, Engine: Func(func(_ context.Context, run *Run) (any, error) {
			switch attempts = append(attempts, run.Attempt); len(attempts) {
			case 1, 3:
				return nil, Postpone(time.Hour, "it is night")
			case 2, 4:
				return nil, Requeue(time.Minute<<run.Attempt, "the register is down")
			}
			return nil, nil
		})}))
		settle(3 * time.Hour)
		require.Equal(t, "success", h.state("a"))
		require.Equal(t, []int{1, 1, 2, 2, 3}, attempts)
		var delays []time.Duration
		for _, release := range h.sent("run:release") {
			var told terms.Release
			require.NoError(t, json.Unmarshal([]byte(release.payload), &told))
			delays = append(delays, time.Duration(told.DelayMS)*time.Millisecond)
		}
		require.Equal(t, []time.Duration{10 * time.Minute, time.Hour, 2 * time.Minute, time.Hour, 4 * time.Minute}, delays)
		require.Equal(t, 3, h.record("a").Attempt)
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
		one, _ := h.hire(all(Config{Groups: slots.MustParse("manual:1"), Name: "one", Hooks: Hooks{Accept: common}}))
		settle(time.Second)
		h.withAdaptor("common", "@openfn/language-common@3.3.4")
		settle(10 * time.Second)
		require.Equal(t, "started", h.state("common"), "one that it does not want holds up no other")
		require.Positive(t, one.Stats().Delivery.Settled[runner.Returned])
		record := h.record("http")
		require.Equal(t, 1, record.Attempt, "it was never tried")
		require.Zero(t, h.taken("http", "fetch:dataclip")+h.taken("http", "run:start"), "nothing was begun")
		require.Equal(t, "available", string(record.State))

		h.hire(all(Config{Groups: slots.MustParse("manual:1"), Name: "two", Hooks: Hooks{Accept: runner.AcceptAdaptors("@openfn/language-http")}}))
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
		worker, stop := h.hire(all(Config{
			Groups: slots.MustParse("manual:1"), Hooks: Hooks{Accept: runner.AcceptAdaptors("@openfn/language-common")}, Logger: slog.New(slog.NewTextHandler(&log, nil)),
		}))
		settle(time.Hour)
		require.NoError(t, stop())
		require.Equal(t, "available", h.state("http"))
		require.Equal(t, 1, h.record("http").Attempt)
		require.Greater(t, worker.Stats().Delivery.Settled[runner.Returned], uint64(100))
		require.Empty(t, worker.Stats().Ended)
		require.Empty(t, worker.Stats().Results[0].Reason)
		require.Contains(t, log.String(), `msg="run returned to the queue" run_id=http group=manual settled=returned why="the adaptor @openfn/language-http is not for this worker`)
		require.NotContains(t, log.String(), "does not know how to take")
	})
}

func TestARunThatNobodyWantsMakesTheGroupRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := extended(t, mockserver.Config{})
		h.withAdaptor("http", "@openfn/language-http")
		worker, _ := h.hire(Config{
			Groups: slots.MustParse("manual:1"), Extensions: []string{extRelease}, Hooks: Hooks{Accept: func(context.Context, *Run) error { return Postpone(time.Millisecond, "") }},
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
			h.hire(all(Config{Groups: slots.MustParse("manual:1"), Hooks: Hooks{Accept: runner.AcceptAdaptors("@openfn/language-common"), RefuseUnsuitable: refuse}}))
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
		accept       AcceptFunc
		options      string
		kind, starts string
	}{
		{name: "discard", accept: func(context.Context, *Run) error { return Discard("too old") }, kind: "exception Discarded too old"},
		{name: "error", accept: func(context.Context, *Run) error { return errors.New("no idea") }, kind: "exception AcceptError no idea"},
		{name: "panic", accept: func(context.Context, *Run) error { panic("no") }, kind: "crash Panic panic: no"},
		{name: "deadline", options: `,"options":{"deadline_ms":946684800000}`, kind: "exception Discarded its deadline passed at 2000-01-01T00:00:00Z"},
		{name: "deadline to come", options: `,"options":{"deadline_ms":946685800000}`, kind: "success  "},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := openHouse(t, quiet)
				time.Sleep(time.Second)
				h.put(mockserver.Run{Plan: json.RawMessage(`{"id":"a","jobs":[{"id":"j"}]` + tt.options + `}`)})
				h.hire(Config{Hooks: Hooks{Accept: tt.accept}, Engine: Func(func(context.Context, *Run) (any, error) { return nil, nil })})
				settle(time.Minute)
				record := h.record("a")
				require.Equal(t, tt.kind, record.Reason+" "+record.ErrorType+" "+record.ErrorMessage)
			})
		})
	}
}
