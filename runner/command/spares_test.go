package command

import (
	"context"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/runner"
)

// withModules is an engine whose runs need modules.
type withModules struct {
	pool    *Pool
	modules []string
}

func (e *withModules) Prepare(_ context.Context, run *runner.Run) (runner.Execution, error) {
	return runner.Prepared(nil, func(ctx context.Context) (runner.Result, error) {
		return e.pool.Execute(ctx, run, Request{Run: newRunBody(run), Modules: e.modules})
	}), nil
}

func TestNothingIsStartedBeforeTheFirstRun(t *testing.T) {
	starts := filepath.Join(t.TempDir(), "starts")
	pool, err := NewPool(Config{Args: program("only 1 " + starts), Spares: 3})
	require.NoError(t, err)
	require.NoError(t, pool.Close())
	require.NoError(t, pool.Close(), "once more")
	require.NoFileExists(t, starts)
}

func TestSparesAreWarmAndReady(t *testing.T) {
	w := newWire(t, "ready", Config{Spares: 1})
	pool := w.engine.pool
	modules := &withModules{pool: pool, modules: []string{"m", "n"}}
	w.Engine = modules

	require.Equal(t, []string{"null"}, logLines(t, w.job("loaded", "ok {}"), "JOB"), "the first run had nobody to warm its process")
	spare := awaitIdle(t, pool, 1)[0]
	record := w.job("loaded", "who", "ok {}")
	require.Equal(t, `["m","n"]`, logLines(t, record, "JOB")[0])
	require.Equal(t, spare.cmd.Process.Pid, pidOf(t, logLines(t, record, "JOB")[1]))

	require.NotEqual(t, spare, awaitIdle(t, pool, 1)[0])
	modules.modules = []string{"o"}
	require.Equal(t, "success", w.job("ok {}").Reason)
	require.Equal(t, []string{"o"}, awaitIdle(t, pool, 1)[0].loaded, "of the latest request")
}

func TestASpareWithTheModulesOfTheRunIsPreferred(t *testing.T) {
	p := &Pool{idle: []*process{{loaded: []string{"a"}}, {loaded: []string{"b", "c"}}, {loaded: []string{"b", "c"}}, {fault: "spoke out of turn", loaded: []string{"b", "c", "d"}}}}
	second, first := p.idle[1], p.idle[0]
	require.Same(t, second, p.takeIdleLocked("", []string{"b", "c", "d"}))
	require.Same(t, first, p.takeIdleLocked("", nil), "of equals, the one that is ready the longest")
	require.Len(t, p.idle, 2)
}

func TestSparesEndAfterAnIdleTime(t *testing.T) {
	w := newWire(t, "ready", Config{Spares: 2, SpareIdle: time.Second})
	for range 2 {
		require.Equal(t, "success", w.job("ok {}").Reason)
		spares := awaitIdle(t, w.engine.pool, 2)
		for _, spare := range spares {
			<-spare.exited
			require.Equal(t, "code: 0", spare.exit.String(), "it ended with its input")
		}
		awaitIdle(t, w.engine.pool, 0)
	}
}

// Guards against a process that stays for ever, because it was so slow to start that the others
// without a run were ended before.
func TestASpareThatComesLateEndsAsWell(t *testing.T) {
	pool, err := NewPool(Config{Args: program("ready"), SpareIdle: time.Millisecond})
	require.NoError(t, err)
	defer func() { require.NoError(t, pool.Close()) }()
	proc, err := pool.launch(t.Context())
	require.NoError(t, err)
	pool.place(proc)
	require.Eventually(t, func() bool { return !proc.alive() }, 5*time.Second, time.Millisecond)
}

func TestSparesThatDieAreNotStartedInALoop(t *testing.T) {
	starts := filepath.Join(t.TempDir(), "starts")
	count := func() int {
		data, _ := os.ReadFile(starts)
		return len(data)
	}
	w := newWire(t, "only 1 "+starts, Config{Spares: 1})
	pool := w.engine.pool
	pool.pause.InitialInterval = time.Hour
	pool.pause.Reset()
	held := func() bool {
		pool.mu.Lock()
		defer pool.mu.Unlock()
		return pool.held && len(pool.attempts) == 0
	}
	require.Equal(t, "success", w.job("ok {}").Reason)
	require.Eventually(t, held, patient, time.Millisecond)
	require.Equal(t, 2, count(), "the run's, and one spare")
	for range 3 {
		requireEnd(t, w.job("ok {}"), "exception", "EngineError", "The engine could not be started: it exited before it was ready (code: 8)")
	}
	require.True(t, held())
	require.Equal(t, 5, count(), "one for each run")
}

// However soon a process dies, a run costs one start and ends.
func TestAProcessThatDiesOnceItIsReady(t *testing.T) {
	w := newWire(t, "flash", Config{Spares: 2})
	w.engine.pool.pause.InitialInterval = time.Hour
	w.engine.pool.pause.Reset()
	for range 3 {
		requireEnd(t, w.job("ok {}"), "crash", "ExitError", "Process exited with code: 3")
	}
	awaitIdle(t, w.engine.pool, 0)
	require.True(t, w.engine.pool.held)
}

func TestSparesAreTriedAgain(t *testing.T) {
	starts := filepath.Join(t.TempDir(), "starts")
	w := newWire(t, "only 4 "+starts, Config{Spares: 1})
	pool := w.engine.pool
	pool.pause.InitialInterval = time.Millisecond
	pool.pause.Reset()
	w.Engine = &withModules{pool: pool}
	require.Equal(t, "exception", w.job("ok {}").Reason)
	awaitIdle(t, pool, 1)
	require.Equal(t, "success", w.job("ok {}").Reason)
}

func TestASpareThatIsKilledIsReplaced(t *testing.T) {
	w := newWire(t, "ready", Config{Spares: 1})
	pool := w.engine.pool
	pool.pause.InitialInterval = time.Millisecond
	pool.pause.Reset()
	require.Equal(t, "success", w.job("ok {}").Reason)
	spare := awaitIdle(t, pool, 1)[0]
	require.NoError(t, syscall.Kill(spare.cmd.Process.Pid, syscall.SIGKILL))
	<-spare.exited
	require.Eventually(t, func() bool {
		pool.mu.Lock()
		defer pool.mu.Unlock()
		return len(pool.idle) == 1 && pool.idle[0] != spare
	}, patient, time.Millisecond)
	require.Equal(t, "success", w.job("ok {}").Reason)
}
