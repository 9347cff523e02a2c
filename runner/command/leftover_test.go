package command

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Guards against a disk that fills up with the folders of workers that were killed,
// and against removing one of a worker that lives.
func TestTheFoldersOfDeadWorkersAreRemoved(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	made := func(name string, age time.Duration) string {
		dir := filepath.Join(temp, name)
		require.NoError(t, os.MkdirAll(filepath.Join(dir, "locked"), 0o700))
		require.NoError(t, os.Chmod(filepath.Join(dir, "locked"), 0))
		old := time.Now().Add(-age)
		require.NoError(t, os.Chtimes(dir, old, old))
		return dir
	}
	left := made(folderName+"1", time.Hour)
	young := made(folderName+"2", 0)
	others := made("phxworker-openfn-1", time.Hour)
	t.Cleanup(func() { unlock(young); unlock(others) })
	living, lock, err := makeFolder()
	require.NoError(t, err)
	defer func() { _ = lock.Close() }()
	require.NoError(t, os.Chtimes(living, time.Now(), time.Now().Add(-time.Hour)))

	newWire(t, "ready", Config{})
	require.Eventually(t, func() bool { _, err := os.Stat(left); return os.IsNotExist(err) }, patient, time.Millisecond)
	sweepFolders()
	for _, dir := range []string{young, others, living} {
		require.DirExists(t, dir)
	}
}
