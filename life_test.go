package phxworker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/mockserver"
	"github.com/phxworker/phxworker/mockserver/fault"
	"github.com/phxworker/phxworker/slots"
)

func TestStopLetsRunsFinishAndLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := openHouse(t, quiet)
		h.enqueue("manual", "m1")
		_, stop := h.hire(Config{})
		settle(time.Second)
		require.Equal(t, "started", h.state("m1"))

		stopped := make(chan struct{})
		go func() {
			_ = stop()
			close(stopped)
		}()
		settle(time.Minute)
		claims := len(h.sent("claim"))
		h.enqueue("manual", "m2")
		h.server.Wake()
		settle(time.Minute)
		require.Len(t, h.sent("claim"), claims, "a worker that stops claims no more")

		h.gate.release("m1")
		<-stopped
		require.Equal(t, "success", h.state("m1"))
		require.Equal(t, "available", h.state("m2"))
		leaves := h.sent("phx_leave")
		require.Equal(t, "worker:queue", leaves[len(leaves)-1].topic)
		synctest.Wait()
		require.Zero(t, h.server.Stats().Sockets)
	})
}

func TestStopEndsRunsAfterTheGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := openHouse(t, quiet)
		h.enqueue("manual", "m1")
		var log strings.Builder
		_, stop := h.hire(Config{Grace: 10 * time.Second, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		settle(time.Second)
		begin := time.Now()
		require.ErrorIs(t, stop(), ErrAborted)
		require.GreaterOrEqual(t, time.Since(begin), 10*time.Second)
		require.Less(t, time.Since(begin), 15*time.Second)
		result, err := h.server.Wait(t.Context(), "m1")
		require.NoError(t, err)
		require.Equal(t, "cancel", result.Reason)
		require.Equal(t, "WorkerStopped", result.ErrorType)
		require.Contains(t, log.String(), "run_ids=[m1]")
	})
}

func TestStopBeforeTheFirstConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := openHouse(t, quiet)
		require.NoError(t, h.listener.Close())
		_, stop := h.hire(Config{})
		settle(time.Minute)
		require.NoError(t, stop())
	})
}

// Guards against a loop that was full when the connection dropped and is never
// heard of again.
func TestAFullLoopResumesAfterAReconnect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := openHouse(t, quiet)
		h.enqueue("manual", "m1", "m2")
		h.hire(Config{Groups: slots.MustParse("manual>*:1")})
		settle(time.Second)
		h.cut()
		settle(time.Minute)
		h.gate.release("m1")
		settle(time.Second)
		require.Equal(t, "success", h.state("m1"))
		require.Equal(t, "started", h.state("m2"))
	})
}

func TestARunGoesOnWhileTheConnectionIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := openHouse(t, quiet)
		h.enqueue("manual", "m1")
		h.hire(Config{})
		settle(time.Second)
		h.cut()
		h.gate.release("m1") // it ends while nobody can hear it
		settle(time.Minute)
		require.Equal(t, "success", h.state("m1"))
		require.Len(t, h.sent("run:complete"), 1)
	})
}

// Guards against a server that is emptied at the speed of the network: it refuses
// every run that it has just given away.
func TestASlotWhoseRunCameToNothingIsHeldForAMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := openHouse(t, quiet)
		_, err := h.server.AddFault(fault.Rule{Event: fault.Join, Topic: "run:*", Action: fault.Refuse, Response: json.RawMessage(`{"reason":"unauthorized"}`), Count: -1})
		require.NoError(t, err)
		var ids []string
		for n := range 100 {
			ids = append(ids, fmt.Sprint("m", n))
		}
		h.enqueue("manual", ids...)
		h.hire(Config{Groups: slots.MustParse("manual>*:1")})
		settle(10 * time.Second)
		require.LessOrEqual(t, h.server.Stats().Claimed, 11, "one a second")
		require.GreaterOrEqual(t, h.server.Stats().Claimed, 8)
	})
}

func TestTwoWorkersInOneProcessShareNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second := openHouse(t, quiet), openHouse(t, quiet)
		first.enqueue("manual", "a")
		second.enqueue("manual", "a")
		one, stopOne := first.hire(Config{})
		two, _ := second.hire(Config{})
		settle(time.Second)
		require.Equal(t, 1, one.Stats().Groups[0].Running)
		require.Equal(t, 1, two.Stats().Groups[0].Running)
		first.gate.release("a")
		settle(time.Second)
		require.NoError(t, stopOne())
		require.Equal(t, map[Reason]int{"success": 1}, one.Stats().Ended)
		require.Empty(t, two.Stats().Ended)
		require.True(t, two.Stats().Queue.Joined)
		require.Equal(t, "started", second.state("a"))
	})
}

func TestAWorkerRunsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := openHouse(t, quiet)
		worker, stop := h.hire(Config{})
		require.NoError(t, stop())
		require.ErrorContains(t, worker.Run(t.Context()), "Run was called before")
	})
}

func TestConfigIsRefusedWithOneClearLine(t *testing.T) {
	engine := Func(func(context.Context, *Run) (any, error) { return nil, errors.New("never called") })
	tests := []struct {
		name string
		cfg  Config
		want string
	}{
		{name: "no URL", cfg: Config{Secret: "s", Engine: engine}, want: "no URL"},
		{name: "a URL that is none", cfg: Config{URL: "ftp://h/worker", Secret: "s", Engine: engine}, want: `scheme "ftp"`},
		{name: "no secret", cfg: Config{URL: "ws://h/worker", Engine: engine}, want: "no secret"},
		{name: "no engine", cfg: Config{URL: "ws://h/worker", Secret: "s"}, want: "no engine"},
		{name: "malformed group", cfg: Config{URL: "ws://h/worker", Secret: "s", Engine: engine, Groups: []slots.Group{{Queues: []string{"fast_lane"}}}}, want: `fast_lane:0`},
		{name: "unknown extension", cfg: Config{URL: "ws://h/worker", Secret: "s", Engine: engine, Extensions: []string{"leese"}}, want: `no extension "leese"`},
		{name: "a negative time", cfg: Config{URL: "ws://h/worker", Secret: "s", Engine: engine, Delivery: Delivery{MessageTimeout: -time.Second}}, want: "Delivery.MessageTimeout is negative"},
		{name: "a negative number", cfg: Config{URL: "ws://h/worker", Secret: "s", Engine: engine, MaxRuns: -1}, want: "MaxRuns is negative"},
		{name: "a negative back-off", cfg: Config{URL: "ws://h/worker", Secret: "s", Engine: engine, Claim: Claim{MinBackoff: -1}}, want: "Claim has a time that is negative"},
		{name: "back-offs exchanged", cfg: Config{URL: "ws://h/worker", Secret: "s", Engine: engine, Claim: Claim{MinBackoff: time.Minute, MaxBackoff: time.Second}}, want: "exchange them"},
		{name: "no middleware", cfg: Config{URL: "ws://h/worker", Secret: "s", Engine: engine, Hooks: Hooks{Middleware: []Middleware{nil}}}, want: "Hooks.Middleware"},
		{name: "bad key", cfg: Config{URL: "ws://h/worker", Secret: "s", Engine: engine, PublicKey: "%%%"}, want: "key"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := New(tt.cfg)
			require.ErrorContains(t, err, tt.want)
			require.NotContains(t, err.Error(), "\n")
		})
	}
}

// The failure of one run is nobody else's.
func TestAPanicEndsItsRunOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := openHouse(t, quiet)
		h.enqueue("manual", "bad", "good")
		h.hire(Config{Engine: Func(func(ctx context.Context, run *Run) (any, error) {
			if run.ID == "bad" {
				panic("out of order")
			}
			return json.RawMessage(`{"fine":true}`), nil
		})})
		settle(time.Second)
		bad, err := h.server.Wait(t.Context(), "bad")
		require.NoError(t, err)
		require.Equal(t, "crash", bad.Reason)
		require.Equal(t, "panic: out of order", bad.ErrorMessage)
		good, err := h.server.Wait(t.Context(), "good")
		require.NoError(t, err)
		require.Equal(t, "success", good.Reason)
		require.JSONEq(t, `{"fine":true}`, string(good.FinalState))
	})
}

func TestCredentialsAreFetchedSideBySide(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := openHouse(t, quiet)
		h.put(mockserver.Run{
			Plan:        json.RawMessage(`{"id":"r1","jobs":[{"id":"a","credential":"x"},{"id":"b","credential":"y"},{"id":"c","credential":"x"}]}`),
			Credentials: map[string]json.RawMessage{"x": json.RawMessage(`{"k":"1"}`), "y": json.RawMessage(`{"k":"2"}`)},
		})
		_, err := h.server.AddFault(fault.Rule{Action: fault.Delay, Event: "fetch:credential", Delay: time.Second, Count: -1})
		require.NoError(t, err)
		h.hire(Config{Engine: Func(func(_ context.Context, run *Run) (any, error) {
			return []string{string(run.Credential("a")), string(run.Credential("b")), string(run.Credential("c"))}, nil
		})})
		settle(time.Minute)
		fetches := h.sent("fetch:credential")
		require.Len(t, fetches, 2, "one that two jobs share is fetched once")
		require.Equal(t, fetches[0].at, fetches[1].at, "neither waits for the other's answer")
		record, _ := h.server.Inspect("r1")
		require.JSONEq(t, `{"value":["{\"k\":\"1\"}","{\"k\":\"2\"}","{\"k\":\"1\"}"]}`, string(record.FinalState))
	})
}
