package runner

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/claim"
	"github.com/phxworker/phxworker/mockserver/fault"
)

// slow is an engine that takes a minute to prepare, and one a step.
type slow struct{}

func (slow) Prepare(_ context.Context, run *Run) (Execution, error) {
	time.Sleep(time.Minute)
	return Prepared(nil, func(context.Context) (Result, error) {
		step := run.StartStep("a", nil)
		time.Sleep(time.Minute)
		step.Complete(StepResult{Leaf: true})
		return Result{}, nil
	}), nil
}

func TestARunsProgressIsToldWhileItIsUnderWay(t *testing.T) {
	onWire(t, func(t *testing.T, w *wire) {
		id, token := w.claim(planOf(""))
		w.fail(fault.Rule{Action: fault.Delay, Event: fault.Join, Run: id, Delay: 5 * time.Second})
		w.fail(fault.Rule{Action: fault.Delay, Event: "fetch:plan", Delay: 20 * time.Second})
		w.fail(fault.Rule{Action: fault.Delay, Event: "step:complete", Delay: 10 * time.Second})
		r := New(Config{Engine: slow{}})
		require.Empty(t, r.Active())
		begin := time.Now()
		done := make(chan Outcome)
		go func() { done <- r.Run(t.Context(), t.Context(), w.socket, claim.Run{ID: id, Token: token}, nil) }()
		for _, want := range []struct {
			at time.Duration
			is Progress
		}{
			{3 * time.Second, Progress{Phase: Joining}},
			{10 * time.Second, Progress{Phase: Loading, Since: begin.Add(5 * time.Second)}},
			{time.Minute, Progress{Phase: Preparing, Since: begin.Add(25 * time.Second)}},
			{2 * time.Minute, Progress{Phase: Executing, Since: begin.Add(85 * time.Second), Job: "a"}},
			{150 * time.Second, Progress{Phase: Reporting, Since: begin.Add(145 * time.Second), Unacknowledged: 3}},
		} {
			time.Sleep(want.at - time.Since(begin))
			synctest.Wait()
			want.is.RunID, want.is.Claimed = id, begin.Add(0)
			if want.is.Phase == Executing || want.is.Phase == Reporting {
				want.is.Started = begin.Add(85 * time.Second)
			}
			if want.is.Since.IsZero() {
				want.is.Since = begin
			}
			require.Equal(t, []Progress{want.is}, r.Active())
		}
		require.NoError(t, (<-done).Err)
		require.Empty(t, r.Active())
		stats := r.Stats()
		require.Equal(t, uint64(5), stats.Acknowledged.Count)
		require.InDelta(t, 10, stats.Acknowledged.Sum, 1e-6)
	})
}

func TestStatsCountWhatEnginesDoWrong(t *testing.T) {
	onWire(t, func(t *testing.T, w *wire) {
		back := make(chan struct{})
		calls := 0
		r := New(Config{Limits: Limits{RunTimeout: time.Minute, LogPayloadMB: 0.001}, Engine: Func(func(_ context.Context, run *Run) (any, error) {
			if calls++; calls == 1 {
				run.Print(string(make([]byte, 2000)))
				panic("broken")
			}
			<-back
			return nil, nil
		})})
		id, token := w.claim(planOf(""))
		r.Run(t.Context(), t.Context(), w.socket, claim.Run{ID: id, Token: token}, nil)
		second := planOf("")
		second.Plan = []byte(`{"id":"r2","jobs":[{"id":"a"}]}`)
		id, token = w.claim(second)
		r.Run(t.Context(), t.Context(), w.socket, claim.Run{ID: id, Token: token}, nil)
		stats := r.Stats()
		require.Equal(t, []uint64{1, 1, 1}, []uint64{stats.Panics, stats.LogsShortened, stats.Stuck})
		require.Equal(t, int64(1), stats.StuckNow)
		close(back)
		synctest.Wait()
		require.Zero(t, r.Stats().StuckNow)
		require.Equal(t, uint64(1), r.Stats().Stuck)
	})
}

// Guards against words that run into each other.
func TestPrintPutsSpacesBetweenItsArguments(t *testing.T) {
	onWire(t, func(t *testing.T, w *wire) {
		w.run(Config{Engine: Func(func(_ context.Context, run *Run) (any, error) {
			run.Print("patients:", 3, "of", "ward", 4)
			return nil, nil
		})}, planOf(""))
		require.Contains(t, strings.Join(w.logged("r1"), " "), "patients: 3 of ward 4")
	})
}

// Guards against names that fill the memory: those of the last runs are kept, and each look at the worker has them.
func TestNamesAreToldInShort(t *testing.T) {
	onWire(t, func(t *testing.T, w *wire) {
		long := strings.Repeat("n", 1<<20)
		run := planOf("")
		run.Plan = []byte(`{"id":"r1","name":"` + long + `","jobs":[{"id":"a","name":"` + long + `"}]}`)
		id, token := w.claim(run)
		var r *Runner
		var seen Progress
		r = New(Config{Engine: Func(func(_ context.Context, run *Run) (any, error) {
			step := run.StartStep("a", nil)
			seen = r.Active()[0]
			step.Complete(StepResult{Leaf: true})
			return nil, nil
		})})
		outcome := r.Run(t.Context(), t.Context(), w.socket, claim.Run{ID: id, Token: token}, nil)
		require.NoError(t, outcome.Err)
		for what, name := range map[string]string{"outcome": outcome.Name, "run": seen.Name, "job": seen.JobName} {
			require.True(t, strings.HasPrefix(name, "nnn"), what)
			require.LessOrEqual(t, len(name), 1100, what)
		}
	})
}
