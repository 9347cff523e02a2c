package adaptors

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// flushTree flushes the file system that a folder is in: to flush one file after the other
// takes long, and a package has thousands.
func flushTree(dir *os.File) error {
	err := unix.Syncfs(int(dir.Fd()))
	if errors.Is(err, unix.EIO) || errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		return &os.PathError{Op: "sync", Path: dir.Name(), Err: err}
	}
	return nil // there are file systems that cannot
}
