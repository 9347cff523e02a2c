package command

import (
	"log/slog"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// What the names of the folders of processes begin with.
const folderName = "phxworker-engine-"

// youngest is how old a folder has to be to be left over: one that is being made
// has no lock for a moment.
const youngest = time.Minute

// makeFolder makes the folder of a process. The worker has it locked for as long as
// it lives, so that others can tell, in other containers too, whose ids of
// processes say nothing.
func makeFolder() (dir string, lock *os.File, err error) {
	dir, err = os.MkdirTemp("", folderName)
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir) // the process may only be allowed its real path
	}
	if err == nil {
		lock, err = os.Open(dir)
	}
	if err == nil {
		_ = flock(lock) // a file system that has no locks has none for who sweeps, either
	}
	return dir, lock, err
}

func flock(dir *os.File) error { return syscall.Flock(int(dir.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) }

// sweepFolders removes what workers that were killed have left behind. The folder for
// temporary files may be that of all users: what is another's, or a link, stays.
func sweepFolders(log *slog.Logger) {
	left, _ := filepath.Glob(filepath.Join(os.TempDir(), folderName+"*"))
	for _, path := range left {
		sweepFolder(path, log)
	}
}

func sweepFolder(path string, log *slog.Logger) {
	const folder = syscall.O_DIRECTORY | syscall.O_NOFOLLOW | syscall.O_NONBLOCK
	dir, err := os.OpenFile(path, os.O_RDONLY|folder, 0) //nolint:gosec // below the folder for temporary files
	if err != nil {
		return
	}
	defer func() { _ = dir.Close() }()
	info, err := dir.Stat()
	if err != nil || time.Since(info.ModTime()) <= youngest {
		return
	}
	if owner, ok := info.Sys().(*syscall.Stat_t); ok && int(owner.Uid) == os.Geteuid() && flock(dir) == nil {
		removeFolder(path, log)
	}
}
