package command

import (
	"log/slog"
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
	sweepFolders(slog.New(slog.DiscardHandler))
	for _, dir := range []string{young, others, living} {
		require.DirExists(t, dir)
	}
}

// Guards against a worker that removes what another user has planted, or what that leads
// to: the folder for temporary files is everybody's.
func TestTheFoldersOfOthersStay(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can make a folder that is another user's")
	}
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	old := time.Now().Add(-time.Hour)
	planted, victim := filepath.Join(temp, folderName+"planted"), filepath.Join(temp, "victim")
	for _, dir := range []string{planted, victim} {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, "inner"), 0o700))
		require.NoError(t, os.Chtimes(dir, old, old))
	}
	require.NoError(t, os.Chown(planted, 12345, 12345))
	link := filepath.Join(temp, folderName+"link")
	require.NoError(t, os.Symlink(victim, link))
	sweepFolders(slog.New(slog.DiscardHandler))
	for _, dir := range []string{planted, victim} {
		require.DirExists(t, filepath.Join(dir, "inner"))
	}

	file := filepath.Join(temp, "file")
	require.NoError(t, os.WriteFile(file, nil, 0o644))
	require.NoError(t, os.Remove(link))
	require.NoError(t, os.Symlink(file, link))
	unlock(link) // as if it had taken the place of a folder
	info, err := os.Stat(file)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o644), info.Mode())
}
