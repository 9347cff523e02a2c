package command

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// Guards against folders that stay on the disk for ever: that are deeper than a path can be
// long, with one below that nobody may enter, or deeper than there are descriptors.
func TestAFolderGoesHoweverDeepItIs(t *testing.T) {
	var limit syscall.Rlimit
	require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit))
	few := syscall.Rlimit{Cur: 200, Max: limit.Max}
	t.Cleanup(func() { _ = syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit) })
	for name, levels := range map[string][]string{
		"paths":       repeated(strings.Repeat("d", 200), 30),
		"descriptors": repeated("d", 400),
		"names":       {strings.Repeat("d", 255)},
	} {
		t.Run(name, func(t *testing.T) {
			tmp := filepath.Join(folderOfNobody(t), name)
			require.NoError(t, os.Mkdir(tmp, 0o700))
			nest(t, tmp, levels)
			require.NoError(t, os.Chmod(tmp, 0o500))
			require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &few))
			var logged bytes.Buffer
			removeFolder(tmp, slog.New(slog.NewTextHandler(&logged, nil)))
			require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit))
			require.NoDirExists(t, tmp)
			require.Empty(t, logged.String())
		})
	}
}

// nest makes folders within each other, and in the last a file, a link and a folder that
// nobody may enter, with a file in it.
func nest(t *testing.T, dir string, levels []string) {
	t.Helper()
	at, err := os.OpenRoot(dir)
	require.NoError(t, err)
	for _, name := range levels {
		require.NoError(t, at.Mkdir(name, 0o700))
		below, err := at.OpenRoot(name)
		require.NoError(t, err)
		require.NoError(t, at.Close())
		at = below
	}
	defer func() { _ = at.Close() }()
	require.NoError(t, at.Symlink("/", "link"))
	require.NoError(t, at.MkdirAll("closed/inner", 0o700))
	require.NoError(t, at.WriteFile("closed/inner/file", nil, 0o600))
	require.NoError(t, at.Chmod("closed", 0))
}

func TestWhatCannotBeRemovedIsToldOnce(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "of others"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "of others", "file"), nil, 0o600))
	become(t, dir)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "file"), nil, 0o600))
	var logged bytes.Buffer
	removeFolder(dir, slog.New(slog.NewTextHandler(&logged, nil)))
	require.NoFileExists(t, filepath.Join(dir, "file"))
	require.Equal(t, 1, strings.Count(logged.String(), "\n"), logged.String())
	require.Contains(t, logged.String(), dir)
}

// folderOfNobody returns a folder that belongs to another user than root, whom the thread
// of the test is from then on, for files.
func folderOfNobody(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if os.Geteuid() == 0 {
		become(t, dir)
	}
	return dir
}

// become gives a folder to a user who is not root, and has the test's thread be that user for files.
func become(t *testing.T, dir string) {
	t.Helper()
	const nobody = 65534
	if os.Geteuid() != 0 {
		t.Skip("only root can be another user")
	}
	for _, path := range []string{dir, filepath.Dir(dir)} {
		require.NoError(t, os.Chown(path, nobody, nobody))
	}
	runtime.LockOSThread()
	require.NoError(t, syscall.Setfsuid(nobody))
	t.Cleanup(func() {
		_ = syscall.Setfsuid(0)
		runtime.UnlockOSThread()
	})
	if _, err := os.ReadDir(dir); err != nil {
		t.Skip("another user cannot reach the folder of temporary files")
	}
}

func repeated(name string, times int) []string {
	return strings.Split(strings.Repeat(name+"/", times-1)+name, "/")
}
