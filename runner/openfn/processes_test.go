package openfn

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/internal/runtest"
	"github.com/phxworker/phxworker/mockserver"
	"github.com/phxworker/phxworker/runner"
)

func TestTheProcessesOfNodeAreCounted(t *testing.T) {
	fresh, err := New(Config{RepoDir: repo})
	require.NoError(t, err)
	require.Zero(t, fresh.Processes(), "before the first run")
	require.NoError(t, fresh.Close())
	require.Zero(t, fresh.Processes())

	b := newBench(t, Config{})
	e := b.Engine.(*Engine)
	awaitProcesses(t, e, 0) // of the run that installs
	run := runtest.OneJob("fn(() => new Promise(done => setTimeout(done, 60_000)))")
	ended := make(chan mockserver.RunRecord, 1)
	go func() { ended <- b.Run(t.Context(), runner.Limits{RunTimeout: 3 * time.Second}, run) }()
	awaitProcesses(t, e, 1)
	require.Equal(t, "kill", (<-ended).Reason)
	awaitProcesses(t, e, 0)
}

func awaitProcesses(t *testing.T, e *Engine, n int) {
	t.Helper()
	require.Eventually(t, func() bool { return e.Processes() == n }, time.Minute, time.Millisecond)
}
