package command

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/runner"
)

// Guards against a worker that goes on taking runs when its engine does not start: what
// is wrong there is not wrong with the run.
func TestWhoCouldNotExecuteARun(t *testing.T) {
	full := func(string) ([]string, error) {
		return nil, &os.PathError{Op: "write", Path: "host.mjs", Err: syscall.ENOSPC}
	}
	tests := []struct {
		name, start string
		cfg         Config
		limits      runner.Limits
		script      string
		unable      bool
	}{
		{name: "it exits before it is ready", start: "exit", unable: true},
		{name: "it is never ready", start: "mute", cfg: Config{StartTimeout: 50 * time.Millisecond}, unable: true},
		{name: "it says something else", start: `hello {"type":"log"}`, unable: true},
		{name: "the disk is full", cfg: Config{Args: program("ready"), Grant: full}, unable: true},
		{name: "all is well", start: "ready", script: "ok {}"},
		{name: "the job fails", start: "ready", script: `say {"type":"end","reason":"fail","error_type":"E","error_message":"m"}`},
		{name: "the job ends the process", start: "ready", script: "exit 3"},
		{name: "the run's time is over before it is ready", start: "mute", limits: runner.Limits{RunTimeout: 50 * time.Millisecond}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWire(t, tt.start, tt.cfg)
			_, outcome := w.Outcome(t.Context(), tt.limits, oneJob(tt.script))
			require.Equal(t, tt.unable, outcome.Unable, outcome.Message)
			w.Engine = &withModules{pool: w.engine.pool} // which does not prepare
			_, outcome = w.Outcome(t.Context(), tt.limits, oneJob(tt.script))
			require.Equal(t, tt.unable, outcome.Unable, outcome.Message)
		})
	}
}

// Guards against a run that has failed to return, as its end says, of which nobody is told that it never began.
func TestARunWhoseTimeIsOverBeforeItHasAProcessSaysSo(t *testing.T) {
	w := newWire(t, "mute", Config{})
	w.Engine = &withModules{pool: w.engine.pool} // which does not prepare
	record, _ := w.Outcome(t.Context(), runner.Limits{RunTimeout: 50 * time.Millisecond}, oneJob("ok {}"))
	requireEnd(t, record, "kill", "TimeoutError", "Workflow failed to return within 50ms")
	require.Contains(t, logLines(t, record, "R/T"), `"The run had not begun by then: no process of the engine was ready"`)
}

// A pool that was closed says nothing of the worker's health.
func TestAClosedPoolIsNoIllness(t *testing.T) {
	w := newWire(t, "ready", Config{})
	require.NoError(t, w.engine.Close())
	_, outcome := w.Outcome(t.Context(), runner.Limits{}, oneJob("ok {}"))
	require.False(t, outcome.Unable)
	require.ErrorIs(t, w.engine.Check(t.Context()), ErrClosed)
}

// Guards against a Check that goes by what was so once.
func TestCheckTellsWhetherItWorksNow(t *testing.T) {
	broken := filepath.Join(t.TempDir(), "broken")
	var starts int
	w := newWire(t, "", Config{Args: os.Args[:1], Grant: func(string) ([]string, error) {
		starts++
		if _, err := os.Stat(broken); err == nil {
			return []string{"engine", "exit"}, nil
		}
		return []string{"engine", "ready"}, nil
	}})
	const why = "The engine could not be started: it exited before it was ready (code: 7): no such module: left-pad"
	require.NoError(t, os.WriteFile(broken, nil, 0o600))
	require.EqualError(t, w.engine.Check(t.Context()), why, "before the first run")
	require.NoError(t, os.Remove(broken))
	require.NoError(t, w.engine.Check(t.Context()))
	require.NoError(t, w.engine.Check(t.Context()))
	require.Equal(t, 2, starts, "what is known is not tried again")
	require.Equal(t, "success", w.job("ok {}").Reason)
	require.Equal(t, 2, starts, "the run has the process of the check")

	require.NoError(t, os.WriteFile(broken, nil, 0o600))
	_, outcome := w.Outcome(t.Context(), runner.Limits{}, oneJob("ok {}"))
	require.True(t, outcome.Unable)
	for range 2 {
		require.EqualError(t, w.engine.Check(t.Context()), why)
	}
	require.NoError(t, os.Remove(broken))
	require.NoError(t, w.engine.Check(t.Context()))
	require.Equal(t, "success", w.job("ok {}").Reason)

	ended, cancel := context.WithCancelCause(t.Context())
	cancel(errEnough)
	require.ErrorIs(t, w.engine.pool.Start(ended), errEnough)
}

var errEnough = errors.New("enough")
