package command

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/runner"
)

func awaitProcesses(t *testing.T, p *Pool, n int) {
	t.Helper()
	require.Eventually(t, func() bool { return p.Processes() == n }, patient, time.Millisecond, "there are %d", p.Processes())
}

func TestBusyProcessesAndSparesAreCounted(t *testing.T) {
	w := newWire(t, "ready", Config{Spares: 2})
	require.Zero(t, w.engine.Processes())
	marker := filepath.Join(t.TempDir(), "marker")
	f := w.start(t.Context(), runner.Limits{}, oneJob("who", "until "+marker, "ok {}"))
	pid := pidOf(t, f.awaitLine(0))
	spares := awaitIdle(t, w.engine.pool, 2)
	require.Equal(t, 3, w.engine.Processes())

	require.NoError(t, os.WriteFile(marker, nil, 0o600))
	requireEnd(t, f.wait(), "success", "", "")
	requireGone(t, pid)
	awaitProcesses(t, w.engine.pool, 2)

	require.NoError(t, w.engine.Close())
	require.Zero(t, w.engine.Processes())
	for _, spare := range spares {
		requireGone(t, spare.cmd.Process.Pid)
	}
}

func TestAProcessThatIsNotReadyYetIsCounted(t *testing.T) {
	w := newWire(t, "mute", Config{StartTimeout: time.Hour})
	ctx, cancel := context.WithCancel(t.Context())
	f := w.start(ctx, runner.Limits{}, oneJob("ok {}"))
	require.Eventually(t, func() bool { return w.engine.Processes() == 1 }, patient, time.Millisecond)
	cancel()
	f.wait()
	require.NoError(t, w.engine.Close())
	require.Zero(t, w.engine.Processes())
}

// One that was told to go may take its time, and uses memory meanwhile.
func TestAProcessCountsUntilItIsKnownToBeDead(t *testing.T) {
	pool, err := NewPool(Config{Args: program("stubborn"), CancelGrace: time.Hour})
	require.NoError(t, err)
	_, err = pool.Versions(t.Context())
	require.NoError(t, err)
	spare := awaitIdle(t, pool, 1)[0]
	var closing sync.WaitGroup
	closing.Go(func() { _ = pool.Close() })
	awaitIdle(t, pool, 0)
	require.Equal(t, 1, pool.Processes())
	require.NoError(t, syscall.Kill(spare.cmd.Process.Pid, syscall.SIGKILL))
	closing.Wait()
	require.Zero(t, pool.Processes())
}

// What a process has left behind may be read long after its death.
func TestADeadProcessIsNotCountedForItsOutput(t *testing.T) {
	pool, err := NewPool(Config{Args: program("ready")})
	require.NoError(t, err)
	defer func() { require.NoError(t, pool.Close()) }()
	proc, err := pool.acquire(t.Context(), "", nil)
	require.NoError(t, err)
	require.Equal(t, 1, pool.Processes())
	proc.begin()
	require.NoError(t, proc.write([]byte(`{"type":"run","run":{"plan":{"jobs":[{"body":"say unread\nexit 0"}]}}}`+"\n")))
	<-proc.exited
	require.Zero(t, pool.Processes())
	require.Equal(t, "unread", (<-proc.messages).text)
	pool.release(proc, false)
}
