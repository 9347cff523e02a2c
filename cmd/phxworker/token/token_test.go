package token

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func address(text string) net.Addr {
	return net.TCPAddrFromAddrPort(netip.MustParseAddrPort(text))
}

// keep keeps a new token, and returns it and where it is.
func keep(t *testing.T, folder, at string) (token, path string) {
	t.Helper()
	token = New()
	file, err := Keep([]string{folder}, nil, address(at), token)
	require.NoError(t, err)
	t.Cleanup(file.Remove)
	return token, file.Path()
}

func find(t *testing.T, folder, at string) (Found, error) {
	t.Helper()
	return Find([]string{filepath.Join(folder, "not-there"), folder}, netip.MustParseAddrPort(at))
}

func TestATokenIsKeptForItsUserAloneWhileTheWorkerListens(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "phxworker")
	token := New()
	file, err := Keep([]string{"/dev/null/nowhere", folder}, nil, address("127.0.0.1:2222"), token)
	require.NoError(t, err)
	info, err := os.Stat(folder)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o700), info.Mode().Perm())
	info, err = os.Stat(file.Path())
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	entries, err := os.ReadDir(folder)
	require.NoError(t, err)
	require.Len(t, entries, 1, "nothing unfinished is left")

	found, err := find(t, folder, "127.0.0.1:2222")
	require.NoError(t, err)
	require.Equal(t, Found{Token: token, Path: file.Path()}, found)
	for _, other := range []string{"127.0.0.1:2223", "127.0.0.2:2222", "[::1]:2222", "10.0.0.1:2222"} {
		_, err = find(t, folder, other)
		require.ErrorIs(t, err, ErrNone, "another worker's: %s", other)
		require.ErrorContains(t, err, folder)
	}

	file.Remove()
	entries, err = os.ReadDir(folder)
	require.NoError(t, err)
	require.Empty(t, entries)
	_, err = find(t, folder, "127.0.0.1:2222")
	require.ErrorIs(t, err, ErrNone)
}

func TestAWorkerAtAllAddressesIsFoundByEach(t *testing.T) {
	for all, each := range map[string][]string{
		"[::]:2222":    {"127.0.0.1:2222", "[::1]:2222", "10.0.0.1:2222", "[::ffff:127.0.0.1]:2222"},
		"0.0.0.0:2222": {"127.0.0.1:2222", "10.0.0.1:2222"},
	} {
		folder := t.TempDir()
		token, _ := keep(t, folder, all)
		for _, at := range each {
			found, err := find(t, folder, at)
			require.NoError(t, err, at)
			require.Equal(t, token, found.Token, at)
		}
	}
}

func TestWhatAKilledWorkerHasLeftGivesWay(t *testing.T) {
	folder := t.TempDir()
	_, left := keep(t, folder, "127.0.0.1:2222")
	before := time.Now().Add(-time.Hour)
	require.NoError(t, os.Chtimes(left, before, before))
	token, _ := keep(t, folder, "[::]:2222")
	found, err := find(t, folder, "127.0.0.1:2222")
	require.NoError(t, err)
	require.Equal(t, token, found.Token, "of two the latest")

	require.NoError(t, os.WriteFile(left+".new", []byte("half"), 0o400))
	token, again := keep(t, folder, "127.0.0.1:2222")
	require.Equal(t, left, again)
	found, err = find(t, folder, "127.0.0.1:2222")
	require.NoError(t, err)
	require.Equal(t, token, found.Token)
}

// Guards against a container that takes away the file of another one: the two share a folder
// for temporary files, and each has all addresses for itself.
func TestAFileIsRemovedByWhoWroteItLast(t *testing.T) {
	folder := t.TempDir()
	first, err := Keep([]string{folder}, nil, address("0.0.0.0:2222"), New())
	require.NoError(t, err)
	token := New()
	second, err := Keep([]string{folder}, nil, address("0.0.0.0:2222"), token)
	require.NoError(t, err)
	first.Remove()
	found, err := find(t, folder, "127.0.0.1:2222")
	require.NoError(t, err)
	require.Equal(t, token, found.Token)
	second.Remove()
	_, err = find(t, folder, "127.0.0.1:2222")
	require.ErrorIs(t, err, ErrNone)
}

// A worker whose port is another each time does not find the file again that it has left, so
// whoever comes next removes it.
func TestWhatKilledWorkersHaveLeftIsRemovedByTheNext(t *testing.T) {
	folder, elsewhere := t.TempDir(), t.TempDir()
	_, alive := keep(t, folder, "127.0.0.1:40001")
	killed, err := Keep([]string{folder}, nil, address("127.0.0.1:40002"), New())
	require.NoError(t, err)
	require.NoError(t, killed.file.Close()) // as its process ends
	defer killed.Remove()
	others := []string{filepath.Join(folder, "notes.txt"), filepath.Join(folder, "link"+suffix), filepath.Join(folder, "folder"+suffix), filepath.Join(folder, "pipe"+suffix)}
	target := filepath.Join(elsewhere, "precious")
	for _, path := range []string{target, others[0]} {
		require.NoError(t, os.WriteFile(path, nil, 0o600))
	}
	require.NoError(t, os.Symlink(target, others[1]))
	require.NoError(t, os.Mkdir(others[2], 0o700))
	require.NoError(t, syscall.Mkfifo(others[3], 0o600))

	_, next := keep(t, folder, "127.0.0.1:40003")
	require.NoFileExists(t, killed.Path())
	for _, path := range append(others, alive, next, target) {
		_, err := os.Lstat(path)
		require.NoError(t, err)
	}
}

// Guards against other users of the machine, who may make any folder among the
// temporary files before the worker does.
func TestAFolderThatAnotherUserMayChangeIsNotUsed(t *testing.T) {
	mine := t.TempDir()
	tests := []struct {
		name string
		make func(t *testing.T, path string) error
		want string
	}{
		{"a link to a folder", func(_ *testing.T, path string) error { return os.Symlink(mine, path) }, " is no folder"},
		{"a file", func(_ *testing.T, path string) error { return os.WriteFile(path, nil, 0o600) }, " is no folder"},
		{"a folder of its own", func(_ *testing.T, path string) error { return os.Mkdir(path, 0o700) }, ""},
		{"a folder that a group can write to", func(t *testing.T, path string) error {
			if os.Geteuid() != 0 {
				t.Skip("only root can give a folder to a group of others")
			}
			return errors.Join(makeWith(path, 0o770), os.Chown(path, 0, 12345))
		}, " can be written to by others: chmod go= "},
		{"a folder that the owner's own group can write to", func(t *testing.T, path string) error {
			if os.Getegid() != os.Geteuid() {
				t.Skip("this user has no group of its own")
			}
			return makeWith(path, 0o770)
		}, ""},
		{"a folder that all can write to", func(_ *testing.T, path string) error { return makeWith(path, 0o777|os.ModeSticky) }, " can be written to by others: chmod go= "},
		{"another user's folder", func(t *testing.T, path string) error {
			if os.Geteuid() != 0 {
				t.Skip("only root can make another user's folder")
			}
			if err := os.Mkdir(path, 0o700); err != nil {
				return err
			}
			return os.Chown(path, 65534, 65534)
		}, " belongs to another user"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "phxworker")
			require.NoError(t, tt.make(t, path))
			file, err := Keep([]string{path}, nil, address("127.0.0.1:2222"), New())
			if tt.want == "" {
				require.NoError(t, err)
				file.Remove()
				return
			}
			require.ErrorContains(t, err, path+tt.want)
			require.NotContains(t, err.Error(), "\n")
			entries, err := os.ReadDir(mine)
			require.NoError(t, err)
			require.Empty(t, entries, "nothing went through the link")
		})
	}
}

func makeWith(path string, mode os.FileMode) error {
	if err := os.Mkdir(path, 0o700); err != nil {
		return err
	}
	return os.Chmod(path, mode)
}

func TestNothingIsWrittenOrReadThroughALink(t *testing.T) {
	folder := t.TempDir()
	target := filepath.Join(t.TempDir(), "precious")
	precious := New() + "\n" // it even looks like a token
	require.NoError(t, os.WriteFile(target, []byte(precious), 0o600))
	path := filepath.Join(folder, "127.0.0.1:2222"+suffix)
	for _, name := range []string{path, path + ".new"} {
		require.NoError(t, os.Symlink(target, name))
	}
	_, err := find(t, folder, "127.0.0.1:2222")
	require.EqualError(t, err, path+" is not what a worker has written")

	token, _ := keep(t, folder, "127.0.0.1:2222")
	text, err := os.ReadFile(target)
	require.NoError(t, err)
	require.Equal(t, precious, string(text))
	found, err := find(t, folder, "127.0.0.1:2222")
	require.NoError(t, err)
	require.Equal(t, token, found.Token)
}

// Whoever may write to the folder must not make a command send something else to an
// address where he listens, nor wait for ever.
func TestOnlyATokenIsTakenForOne(t *testing.T) {
	tests := []struct {
		name string
		make func(path string) error
	}{
		{"another file", func(path string) error { return os.WriteFile(path, []byte("root:$6$hash:20000::\n"), 0o600) }},
		{"a part of one", func(path string) error { return os.WriteFile(path, []byte("ABCDEFGH\n"), 0o600) }},
		{"without its end", func(path string) error { return os.WriteFile(path, []byte(New()), 0o600) }},
		{"nothing", func(path string) error { return os.WriteFile(path, nil, 0o600) }},
		{"too much", func(path string) error { return os.WriteFile(path, []byte(strings.Repeat("A", 1<<20)), 0o600) }},
		{"a pipe", func(path string) error { return syscall.Mkfifo(path, 0o600) }},
		{"a folder", func(path string) error { return os.Mkdir(path, 0o700) }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			folder := t.TempDir()
			path := filepath.Join(folder, "127.0.0.1:2222"+suffix)
			require.NoError(t, tt.make(path))
			_, err := find(t, folder, "127.0.0.1:2222")
			require.EqualError(t, err, path+" is not what a worker has written")
		})
	}
}

// An administrator is not the user of the unit, and steers it none the less.
func TestRootFindsTheTokenOfAnotherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can make another user's folder")
	}
	folder := t.TempDir()
	token, path := keep(t, folder, "127.0.0.1:2222")
	require.NoError(t, os.Chown(folder, 65534, 65534))
	_, err := find(t, folder, "127.0.0.1:2222")
	require.EqualError(t, err, path+" is not what a worker has written", "the file is not the folder's owner's")
	require.NoError(t, os.Chown(path, 65534, 65534))
	found, err := find(t, folder, "127.0.0.1:2222")
	require.NoError(t, err)
	require.Equal(t, token, found.Token)
}

func TestWhereATokenMayBe(t *testing.T) {
	t.Setenv("TMPDIR", "/tmp")
	env := map[string]string{"XDG_RUNTIME_DIR": "/run/user/7", "RUNTIME_DIRECTORY": "/run/one:/run/two"}
	folders := Folders(func(name string) string { return env[name] })
	require.Equal(t, []string{"/run/user/7/phxworker", "/run/one"}, folders[:2])
	require.Regexp(t, `^/tmp/phxworker-\d+$`, folders[2])
	require.Equal(t, folders[2:], Folders(func(string) string { return "relative" }))
}

// Guards against a command of cron or sudo, which has no session, and one of a session that
// looks for a worker without.
func TestCommandsLookInPlacesOfOtherEnvironments(t *testing.T) {
	t.Setenv("TMPDIR", "/somewhere")
	id := strconv.Itoa(os.Geteuid())
	places := Places(func(name string) string { return map[string]string{"XDG_RUNTIME_DIR": "/run/user/" + id}[name] })
	require.ElementsMatch(t, []string{"/run/user/" + id + "/phxworker", "/somewhere/phxworker-" + id, "/tmp/phxworker-" + id, "/var/tmp/phxworker-" + id, UnitFolder}, places)
}

// What jobs may read is no place for what steers the worker, and it may be named by
// another path.
func TestNoTokenIsKeptWhereJobsRead(t *testing.T) {
	readable, other := t.TempDir(), t.TempDir()
	link := filepath.Join(other, "adaptors")
	require.NoError(t, os.Symlink(readable, link))
	folder := filepath.Join(readable, "phxworker")
	t.Chdir(filepath.Dir(readable))
	for _, shown := range []string{readable, link, folder, "/", filepath.Base(readable)} {
		_, err := Keep([]string{folder}, []string{"", other, shown}, address("127.0.0.1:2222"), New())
		require.EqualError(t, err, "jobs can read "+folder+", which is below "+shown)
		kept, err := filepath.Glob(filepath.Join(folder, "*"))
		require.NoError(t, err)
		require.Empty(t, kept)
	}
	file, err := Keep([]string{folder, other}, []string{readable}, address("127.0.0.1:2222"), New())
	require.NoError(t, err)
	defer file.Remove()
	require.Equal(t, other, filepath.Dir(file.Path()), "the next one takes it")
}

// systemd takes what is old away from /tmp, except where it finds a lock.
func TestTheFolderIsLockedWhileTheWorkerListens(t *testing.T) {
	folder := t.TempDir()
	file, err := Keep([]string{folder}, nil, address("127.0.0.1:2222"), New())
	require.NoError(t, err)
	other, err := Keep([]string{folder}, nil, address("127.0.0.1:2223"), New())
	require.NoError(t, err, "two workers share it")
	dir, err := os.Open(folder)
	require.NoError(t, err)
	defer dir.Close()
	lock := func() error { return syscall.Flock(int(dir.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) }
	require.ErrorIs(t, lock(), syscall.EWOULDBLOCK)
	file.Remove()
	require.ErrorIs(t, lock(), syscall.EWOULDBLOCK)
	other.Remove()
	require.NoError(t, lock())
}
