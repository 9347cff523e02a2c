package adaptors

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// worker is another process that installs a package.
type worker struct {
	cmd   *exec.Cmd
	lines *bufio.Scanner
}

func startWorker(t *testing.T, dir string) *worker {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	w := &worker{cmd: exec.CommandContext(ctx, os.Args[0])}
	w.cmd.Env = append(os.Environ(), otherWorker+"="+dir)
	w.cmd.Stderr = os.Stderr
	out, err := w.cmd.StdoutPipe()
	require.NoError(t, err)
	w.lines = bufio.NewScanner(out)
	require.NoError(t, w.cmd.Start())
	return w
}

func (w *worker) requireSays(t *testing.T, want string) {
	t.Helper()
	require.True(t, w.lines.Scan())
	require.Contains(t, w.lines.Text(), want)
}

// Guards against as many installs of the same as there are workers on a shared folder.
func TestTwoWorkersInstallOnce(t *testing.T) {
	w := fakes(t)
	asked, release := w.hold(t)
	dir := open(t, Config{}).Dir()
	first := startWorker(t, dir)
	<-asked
	first.requireSays(t, "Installing "+one)
	second := startWorker(t, dir)
	second.requireSays(t, "Another worker installs "+one+": waiting for it")
	release()
	first.requireSays(t, "Installed "+one)
	for _, w := range []*worker{first, second} {
		require.False(t, w.lines.Scan())
		require.NoError(t, w.cmd.Wait())
	}
	require.Equal(t, []string{one}, w.fetched())
}

// Guards against a lock that outlives its owner.
func TestALockEndsWithItsOwner(t *testing.T) {
	w := fakes(t)
	asked, release := w.hold(t)
	dir := open(t, Config{}).Dir()
	first := startWorker(t, dir)
	q := <-asked
	second := startWorker(t, dir)
	second.requireSays(t, "Another worker installs")
	require.NoError(t, first.cmd.Process.Kill())
	require.Error(t, first.cmd.Wait(), "it was killed")
	<-q.Context().Done()
	second.requireSays(t, "Installing "+one)
	<-asked
	release()
	second.requireSays(t, "Installed "+one)
	require.NoError(t, second.cmd.Wait())
	require.Equal(t, []string{one, one}, w.fetched())
}

// A folder that nobody may write has no locks, and needs none.
func TestALockThatCannotBeMade(t *testing.T) {
	fakes(t)
	r := open(t, Config{})
	_, err := r.Resolve(t.Context(), one, nil)
	require.NoError(t, err)
	require.NoError(t, os.RemoveAll(filepath.Join(r.Dir(), locksFolder)))
	require.NoError(t, os.WriteFile(filepath.Join(r.Dir(), locksFolder), nil, 0o600))
	_, err = r.Resolve(t.Context(), "@openfn/language-one@2.0.0", nil)
	require.NoError(t, err)
}
