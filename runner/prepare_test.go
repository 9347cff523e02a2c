package runner

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/claim"
)

// preparing is an engine with something to do before a run starts.
type preparing struct {
	Func

	prepare func(ctx context.Context, run *Run) (Versions, error)
}

func (p preparing) Prepare(ctx context.Context, run *Run) (Execution, error) {
	versions, err := p.prepare(ctx, run)
	return Prepared(versions, func(ctx context.Context) (Result, error) { return p.execute(ctx, run) }), err
}

func TestPrepare(t *testing.T) {
	tests := []struct {
		name         string
		prepare      func(ctx context.Context, run *Run) (Versions, error)
		reason, kind string
		starts       int
	}{
		{name: "versions", prepare: func(context.Context, *Run) (Versions, error) { return Versions{"engine": "e"}, nil }, reason: "success", starts: 1},
		{name: "a failure", prepare: func(context.Context, *Run) (Versions, error) {
			return nil, &Failure{Reason: Exception, Type: "AutoinstallError", Message: "no such adaptor"}
		}, reason: "exception", kind: "AutoinstallError"},
		{name: "an error", prepare: func(context.Context, *Run) (Versions, error) { return nil, errors.New("no") }, reason: "exception", kind: "PrepareError"},
		{name: "a panic", prepare: func(context.Context, *Run) (Versions, error) { panic("no") }, reason: "crash", kind: "Panic"},
		{name: "no end", prepare: nil, reason: "kill", kind: "TimeoutError"},
		{name: "an end with its context", prepare: func(ctx context.Context, _ *Run) (Versions, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}, reason: "kill", kind: "TimeoutError"},
		{name: "what its context broke", prepare: func(ctx context.Context, _ *Run) (Versions, error) {
			<-ctx.Done()
			return nil, &Failure{Reason: Exception, Type: "InstallError", Message: "npm was killed"}
		}, reason: "kill", kind: "TimeoutError"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			onWire(t, func(t *testing.T, w *wire) {
				prepare := tt.prepare
				if prepare == nil {
					let := make(chan struct{})
					t.Cleanup(func() { close(let) })
					prepare = func(context.Context, *Run) (Versions, error) {
						<-let
						return nil, nil
					}
				}
				outcome := w.run(Config{Engine: preparing{Func: success, prepare: prepare}}, planOf(`,"options":{"run_timeout_ms":1000}`))
				require.NoError(t, outcome.Err)
				result := w.result("r1")
				require.Equal(t, []string{tt.reason, tt.kind}, []string{result.Reason, result.ErrorType})
				starts := w.events("r1", "run:start")
				require.Len(t, starts, tt.starts)
				if tt.starts > 0 {
					require.Equal(t, map[string]any{"worker": "dev", "engine": "e"}, starts[0]["versions"])
				}
			})
		})
	}
}

func TestAStepThatIsLeftOpenIsNoSuccess(t *testing.T) {
	onWire(t, func(t *testing.T, w *wire) {
		w.run(Config{Engine: Func(func(_ context.Context, run *Run) (any, error) {
			run.StartStep("a", nil)
			return nil, nil
		})}, planOf(""))
		require.Equal(t, []string{"exception", "EngineError"}, []string{w.result("r1").Reason, w.result("r1").ErrorType})
		require.Equal(t, "exception", w.events("r1", "step:complete")[0]["reason"])
	})
}

// Guards against a stop that is reported as a failure of the run, or of its engine.
func TestAStopWhileAnEngineGetsReadyIsACancel(t *testing.T) {
	onWire(t, func(t *testing.T, w *wire) {
		id, token := w.claim(planOf(""))
		work, stop := context.WithCancel(t.Context())
		engine := preparing{Func: success, prepare: func(ctx context.Context, _ *Run) (Versions, error) {
			stop()
			<-ctx.Done()
			return nil, errors.New("npm was killed")
		}}
		require.NoError(t, New(Config{Engine: engine}).Run(work, t.Context(), w.socket, claim.Run{ID: id, Token: token}, nil).Err)
		require.Equal(t, "cancel", w.result("r1").Reason)
	})
}

// An engine has five seconds, unless told otherwise, to leave nothing behind.
func TestAnEngineMayTakeAMomentToStop(t *testing.T) {
	onWire(t, func(t *testing.T, w *wire) {
		r := New(Config{Engine: Func(func(ctx context.Context, run *Run) (any, error) {
			<-ctx.Done()
			time.Sleep(4 * time.Second)
			run.Print("all cleared away")
			return nil, ctx.Err()
		})})
		id, token := w.claim(planOf(`,"options":{"run_timeout_ms":1000}`))
		r.Run(t.Context(), t.Context(), w.socket, claim.Run{ID: id, Token: token}, nil)
		require.Contains(t, w.logged("r1"), "all cleared away")
		require.Equal(t, "kill", w.result("r1").Reason)
		require.Zero(t, r.Stats().Stuck)
	})
}

func TestHowOftenARunMayBeTried(t *testing.T) {
	tests := []struct {
		most, attempt int
		executed      bool
	}{
		{most: 0, attempt: 3, executed: true},
		{most: 0, attempt: 4},
		{most: 5, attempt: 5, executed: true},
		{most: 1, attempt: 2},
		{most: -1, attempt: 99, executed: true},
	}
	for _, tt := range tests {
		onWire(t, func(t *testing.T, w *wire) {
			id, token := w.claim(planOf(""))
			New(Config{MaxAttempts: tt.most, Engine: Func(success)}).Run(t.Context(), t.Context(), w.socket, claim.Run{ID: id, Token: token, Attempt: tt.attempt}, nil)
			require.Equal(t, tt.executed, w.pushes("r1", "run:start") == 1, "attempt %d of %d", tt.attempt, tt.most)
		})
	}
}

// closing is an execution that tells when it is closed.
type closing struct {
	Execution

	closed func()
}

func (c closing) Close() { c.closed() }

// Guards against what an engine holds for a run that is not executed, or frees while the run
// still needs it.
func TestAnExecutionIsClosedOnce(t *testing.T) {
	hang := func(ctx context.Context) { // longer than the engine's grace
		<-ctx.Done()
		time.Sleep(time.Minute)
	}
	nothing := func(context.Context) {}
	tests := []struct {
		name             string
		prepare, execute func(ctx context.Context)
		middleware       []Middleware
		reason           string
		after            time.Duration
	}{
		{name: "it was executed", prepare: nothing, execute: nothing, reason: "success"},
		{name: "middleware does not execute it", prepare: nothing, reason: "fail", middleware: []Middleware{func(ExecuteFunc) ExecuteFunc {
			return func(context.Context, *Run) (Result, error) { return Result{}, errors.New("no") }
		}}},
		{name: "it panics", prepare: nothing, execute: func(context.Context) { panic("no") }, reason: "crash"},
		{name: "it is left behind", prepare: nothing, execute: hang, reason: "kill", after: 61 * time.Second},
		{name: "it comes too late", prepare: hang, reason: "kill", after: 61 * time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			onWire(t, func(t *testing.T, w *wire) {
				begin := time.Now()
				var closed []time.Duration
				engine := engineFunc(func(ctx context.Context, _ *Run) (Execution, error) {
					tt.prepare(ctx)
					return closing{Prepared(nil, func(ctx context.Context) (Result, error) {
						tt.execute(ctx)
						return Result{}, nil
					}), func() { closed = append(closed, time.Since(begin)) }}, nil
				})
				w.run(Config{Engine: engine, Middleware: tt.middleware}, planOf(`,"options":{"run_timeout_ms":1000}`))
				require.Equal(t, tt.reason, w.result("r1").Reason)
				time.Sleep(time.Hour)
				synctest.Wait()
				require.Equal(t, []time.Duration{tt.after}, closed)
			})
		})
	}
}

// engineFunc is an engine that only prepares.
type engineFunc func(ctx context.Context, run *Run) (Execution, error)

func (f engineFunc) Prepare(ctx context.Context, run *Run) (Execution, error) { return f(ctx, run) }

// Guards against a worker that falls over an engine's mistake.
func TestAnEngineThatPreparesNothing(t *testing.T) {
	onWire(t, func(t *testing.T, w *wire) {
		w.run(Config{Engine: engineFunc(func(context.Context, *Run) (Execution, error) { return nil, nil })}, planOf(""))
		require.Equal(t, []string{"exception", "PrepareError"}, []string{w.result("r1").Reason, w.result("r1").ErrorType})
	})
}

// unnamed is an execution that cannot name its versions.
type unnamed struct {
	Execution

	closed *atomic.Int32
}

func (u unnamed) Versions() Versions { panic("no versions") }
func (u unnamed) Close()             { u.closed.Add(1) }

// Guards against what an engine has prepared, and keeps for ever as nobody closes it.
func TestAnExecutionThatPanicsOverItsVersionsIsClosed(t *testing.T) {
	onWire(t, func(t *testing.T, w *wire) {
		var closed atomic.Int32
		w.run(Config{Engine: preparer(func() Execution { return unnamed{closed: &closed} })}, planOf(""))
		require.Equal(t, "panic: no versions", w.result("r1").ErrorMessage)
		require.Equal(t, int32(1), closed.Load())
	})
}

type preparer func() Execution

func (p preparer) Prepare(context.Context, *Run) (Execution, error) { return p(), nil }
