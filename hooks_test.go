package phxworker

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/slots"
)

func TestTheGateIsAskedForEachGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := openHouse(t, quiet)
		h.enqueue("fast_lane", "f")
		h.enqueue("manual", "m")
		worker, _ := h.hire(Config{Groups: slots.MustParse("fast_lane:1 manual:1"), Hooks: Hooks{Gate: func(_ context.Context, group string) error {
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
		results := make(chan RunResult)
		var log bytes.Buffer
		worker, stop := h.hire(Config{
			Groups: slots.MustParse("manual:1"),
			Engine: Func(func(ctx context.Context, _ *Run) (any, error) { return ctx.Value(key{}), nil }),
			Hooks: Hooks{Middleware: []Middleware{func(next ExecuteFunc) ExecuteFunc {
				return func(ctx context.Context, run *Run) (Result, error) {
					return next(context.WithValue(ctx, key{}, map[string]string{"of": run.ID}), run)
				}
			}}, AfterRun: func(result RunResult) {
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
