package openfn

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Guards against a temporary folder whose name leaves no room for that of a
// socket in it, which has some hundred bytes at most.
func TestTheTemporaryFolderMayHaveALongName(t *testing.T) {
	long(t)
	b := newBench(t, Config{})
	dir := t.TempDir()
	for length := 10; length < 70; length += 4 { // where it is too long is the system's to say
		long := filepath.Join(dir, strings.Repeat("d", length))
		require.NoError(t, os.Mkdir(long, 0o700))
		t.Setenv("TMPDIR", long)
		require.Equal(t, "success", b.Job("fn(s => s)").Reason, length)
	}
}

// Guards against runs that all fail, once the system has removed what was old in
// the temporary folder.
func TestTheTemporaryFolderMayBeCleanedUp(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	b := newBench(t, Config{})
	require.Equal(t, "success", b.Job("fn(s => s)").Reason)
	left, err := filepath.Glob(filepath.Join(dir, "*"))
	require.NoError(t, err)
	for _, path := range left {
		require.NoError(t, os.RemoveAll(path))
	}
	require.Equal(t, "success", b.Job("fn(s => s)").Reason)
}
