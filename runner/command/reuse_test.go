package command

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/runner"
)

func TestAProcessIsReused(t *testing.T) {
	w := newWire(t, "ready", Config{Runs: 3})
	pids := map[int]int{}
	for i := range 7 {
		pid, run := who(t, w.job("who", "stderr of the past", "ok {}"))
		pids[pid]++
		require.Equal(t, strconv.Itoa(i%3+1), run)
	}
	require.Len(t, pids, 3)
}

func TestAReusedProcessKeepsNothingOfARun(t *testing.T) {
	w := newWire(t, "ready", Config{Runs: 3})
	require.Equal(t, "success", w.job("stderr secret of the first", "ok {}").Reason)
	record := w.job("stderr of the second", "exit 1")
	require.Empty(t, logLines(t, record, "ERR"), "nobody can tell the two runs' lines apart")
}

// Guards against a heap that is full and not known for it, because whoever says
// what a death means is not told what the process said.
func TestADeathIsJudgedByWhatItsOwnRunSaid(t *testing.T) {
	var said string
	w := newWire(t, "ready", Config{Runs: 3, Died: func(exit Exit) *runner.Failure {
		said = string(exit.Stderr)
		return nil
	}})
	require.Equal(t, "success", w.job("stderr of the first", "ok {}").Reason)
	awaitIdle(t, w.engine.pool, 1)
	require.Eventually(t, func() bool { return w.engine.pool.idle[0].tail.written() > 0 }, patient, time.Millisecond)
	require.Equal(t, "crash", w.job("stderr of the second", "exit 1").Reason)
	require.Equal(t, "of the second\n", said)
}

func TestAProcessThatSpeaksOutOfTurnIsNotReused(t *testing.T) {
	tests := []struct {
		name   string
		script []string
	}{
		{name: "a second end", script: []string{`twice {"type":"end","reason":"crash"}`}},
		{name: "a message", script: []string{`twice {"type":"log","message":[]}`}},
		{name: "a late end", script: []string{`late {"type":"end","reason":"crash"}`, "ok {}"}},
		{name: "a death", script: []string{"ok {}", "exit 1"}},
	}
	w := newWire(t, "ready", Config{Runs: 10})
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			pid, _ := who(t, w.job(append([]string{"who"}, tt.script...)...))
			requireGone(t, pid)
			awaitIdle(t, w.engine.pool, 0)
			next, run := who(t, w.job("who", "ok {}"))
			require.NotEqual(t, pid, next)
			require.Equal(t, "1", run)
		})
	}
}
