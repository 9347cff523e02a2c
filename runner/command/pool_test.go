package command

import (
	"bufio"
	"context"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/internal/runtest"
	"github.com/phxworker/phxworker/mockserver"
	"github.com/phxworker/phxworker/runner"
)

// awaitIdle returns the processes that have no run, once there are n.
func awaitIdle(t *testing.T, p *Pool, n int) []*process {
	t.Helper()
	var idle []*process
	require.Eventually(t, func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		idle = append([]*process(nil), p.idle...)
		return len(idle) == n && len(p.attempts) == 0
	}, patient, time.Millisecond)
	return idle
}

// process returns the first pid of a run that says who it is, and how many runs
// that process had had.
func who(t *testing.T, record mockserver.RunRecord) (pid int, run string) {
	t.Helper()
	require.Equal(t, "success", record.Reason, record.ErrorMessage)
	said := logLines(t, record, "JOB")[0]
	return pidOf(t, said), strings.Fields(said)[2]
}

func TestWhatAProcessPrintsBetweenRunsIsNobodys(t *testing.T) {
	log := &lineLog{}
	w := newWire(t, "ready", Config{Runs: 2, Logger: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	marker := filepath.Join(t.TempDir(), "marker")
	first := w.job("who", "ok {}", "until "+marker, "say from behind")
	pid, _ := who(t, first)
	require.NoError(t, os.WriteFile(marker, nil, 0o600))
	require.Eventually(t, func() bool { return log.has("an engine process without a run printed a line") }, patient, time.Millisecond)
	require.False(t, log.has("from behind"), "it may be a user's data")
	second := w.job("who", "ok {}")
	next, _ := who(t, second)
	require.Equal(t, pid, next)
	require.Empty(t, logLines(t, first, "OUT"))
	require.Empty(t, logLines(t, second, "OUT"))
}

// lineLog keeps what is logged.
type lineLog struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lineLog) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *lineLog) has(text string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Contains(l.text.String(), text)
}

func TestTheFirstRunSaysWhyTheProgramDoesNotStart(t *testing.T) {
	tests := []struct {
		name, start, want string
		cfg               Config
	}{
		{name: "exits", start: "exit", want: "it exited before it was ready (code: 7): no such module: left-pad"},
		{name: "speaks", start: `hello {"type":"log"}`, want: "its first message is of type log, not ready"},
		{name: "is mute", start: "mute", cfg: Config{StartTimeout: 50 * time.Millisecond}, want: "it was not ready within 50ms"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWire(t, tt.start, tt.cfg)
			for range 2 {
				requireEnd(t, w.job("ok {}"), "exception", "EngineError", "The engine could not be started: "+tt.want)
			}
			w.Engine = &withModules{pool: w.engine.pool} // which does not prepare
			requireEnd(t, w.job("ok {}"), "exception", "EngineError", "The engine could not be started: "+tt.want)
		})
	}
}

func TestAProgramThatIsNotThere(t *testing.T) {
	dir := t.TempDir()
	plain := filepath.Join(dir, "plain")
	require.NoError(t, os.WriteFile(plain, nil, 0o600))
	tests := []struct {
		name string
		args []string
		want string
	}{
		{name: "none", want: `the engine's program cannot be started: none is named`},
		{name: "not in the path", args: []string{"no-such-engine"}, want: `the engine's program "no-such-engine" cannot be started: it is not in the PATH; install it, or name it with its path`},
		{name: "no file", args: []string{"./no-such-engine"}, want: `the engine's program "./no-such-engine" cannot be started: there is no such file`},
		{name: "not a program", args: []string{plain}, want: `the engine's program "` + plain + `" cannot be started: it cannot be executed: exec: "` + plain + `": permission denied`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := New(Config{Args: tt.args})
			var program *ProgramError
			require.ErrorAs(t, err, &program)
			require.EqualError(t, err, tt.want)
		})
	}
}

func TestArgumentsThatAreFilesAreFoundFromAnywhere(t *testing.T) {
	t.Chdir(t.TempDir())
	require.NoError(t, os.WriteFile("engine.py", nil, 0o600))
	require.NoError(t, os.Mkdir("folder", 0o700))
	here, err := os.Getwd()
	require.NoError(t, err)
	_, args, err := resolve([]string{"sh", "-u", "engine.py", "folder", "other.py"})
	require.NoError(t, err)
	require.Equal(t, []string{"sh", "-u", filepath.Join(here, "engine.py"), "folder", "other.py"}, args)
}

func TestAContextThatHasEndedStartsNothing(t *testing.T) {
	starts := filepath.Join(t.TempDir(), "starts")
	w := newWire(t, "only 1 "+starts, Config{Spares: 2})
	stop := &runner.Failure{Reason: runner.Cancel, Type: "Stop", Message: "enough"}
	got := make(chan error, 1)
	w.Engine = runner.Func(func(ctx context.Context, run *runner.Run) (any, error) {
		ctx, cancel := context.WithCancelCause(ctx)
		cancel(stop)
		_, err := w.engine.pool.Execute(ctx, run, Request{})
		got <- err
		return nil, err
	})
	requireEnd(t, w.job("ok {}"), "cancel", "Stop", "enough")
	require.Same(t, stop, <-got)
	require.NoFileExists(t, starts)
}

func TestAContextThatEndsDuringTheStart(t *testing.T) {
	w := newWire(t, "mute", Config{StartTimeout: time.Hour, CancelGrace: time.Hour})
	record := w.start(t.Context(), runner.Limits{RunTimeout: 50 * time.Millisecond}, oneJob("ok {}")).wait()
	requireEnd(t, record, "kill", "TimeoutError", "The engine was not ready for the run within 50ms; what it waited for may be there the next time")
	// The start goes on, for the next run. Close ends it.
	require.NoError(t, w.engine.Close())
}

func TestCloseWaitsForTheRunsUnderWay(t *testing.T) {
	w := newWire(t, "ready", Config{Spares: 1, Runs: 5})
	marker := filepath.Join(t.TempDir(), "marker")
	f := w.start(t.Context(), runner.Limits{}, oneJob("who", "until "+marker, `ok {"x":1}`))
	pid := pidOf(t, f.awaitLine(0))
	var closing sync.WaitGroup
	closing.Go(func() { _ = w.engine.Close() })
	require.Eventually(t, func() bool {
		w.engine.pool.mu.Lock()
		defer w.engine.pool.mu.Unlock()
		return w.engine.pool.closed
	}, patient, time.Millisecond)
	requireEnd(t, w.job("ok {}"), "exception", "EngineError", "the pool of engine processes is closed")
	require.NoError(t, os.WriteFile(marker, nil, 0o600))
	requireEnd(t, f.wait(), "success", "", "")
	closing.Wait()
	requireGone(t, pid)
	awaitIdle(t, w.engine.pool, 0)
}

func TestAnIdleProcessEndsWithItsInputOrIsKilled(t *testing.T) {
	for start, grace := range map[string]time.Duration{"ready": time.Hour, "stubborn": 10 * time.Millisecond} {
		t.Run(start, func(t *testing.T) {
			pool, err := NewPool(Config{Args: program(start), CancelGrace: grace})
			require.NoError(t, err)
			_, err = pool.Versions(t.Context())
			require.NoError(t, err)
			idle := awaitIdle(t, pool, 1)[0]
			require.NoError(t, pool.Close())
			requireGone(t, idle.cmd.Process.Pid)
			require.NoDirExists(t, idle.tmp)
			_, err = pool.Versions(t.Context())
			require.ErrorIs(t, err, ErrClosed)
		})
	}
}

func TestARunThatCannotBeWritten(t *testing.T) {
	w := newWire(t, "ready", Config{})
	w.Engine = runner.Func(func(ctx context.Context, run *runner.Run) (any, error) {
		_, err := w.engine.pool.Execute(ctx, run, Request{Run: func() {}})
		return nil, err
	})
	requireEnd(t, w.Run(t.Context(), runner.Limits{}, runtest.OneJob("")), "exception", "EngineError", "the run cannot be written as JSON: json: unsupported type: func()")
}

// A worker that is killed cannot clean up.
func TestNoProcessSurvivesItsWorker(t *testing.T) {
	starts := []string{"ready"}
	if runtime.GOOS == "linux" {
		starts = append(starts, "stubborn") // which does not mind the end of its input
	}
	for _, start := range starts {
		t.Run(start, func(t *testing.T) {
			worker := exec.Command(os.Args[0], "worker", start)
			worker.Env = append(os.Environ(), "TMPDIR="+t.TempDir())
			out, err := worker.StdoutPipe()
			require.NoError(t, err)
			require.NoError(t, worker.Start())
			said, err := bufio.NewReader(out).ReadString('\n')
			require.NoError(t, worker.Process.Kill())
			require.Error(t, worker.Wait(), "it was killed")
			require.NoError(t, err)
			requireGone(t, pidOf(t, said))
		})
	}
}
