package adaptors

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const (
	// unfinished begins the names of folders that are not complete.
	unfinished = ".installing-"
	// staleAfter is how old a folder is that belongs to nobody any more. It is
	// more than an install may take.
	staleAfter = time.Hour
)

// place makes the folder path, which is below one for its package, with fill. That gets a temporary one beside the
// package's, for only within a file system a rename is atomic, and a package has no folder before it has something in it. What is in it is on the disk before
// it gets its name. If path is there by then, that stays if it is good: another process
// was first.
func place(path string, good func() bool, fill func(dir string) error) error {
	parent := filepath.Dir(filepath.Dir(path))
	if err := mkdir(parent); err != nil {
		return err
	}
	sweep(parent)
	tmp, err := os.MkdirTemp(parent, unfinished+"*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)                      // what is left of it
	if err := os.Chmod(tmp, 0o755); err != nil { //nolint:gosec // others may run the jobs
		return err
	}
	if err := fill(tmp); err != nil {
		return err
	}
	if err := flush(tmp); err != nil {
		return err
	}
	if err := mkdir(filepath.Dir(path)); err != nil {
		return err
	}
	if exists(path) {
		if good() {
			return nil
		}
		old := tmp + "-old"
		defer os.RemoveAll(old)
		if err := os.Rename(path, old); err != nil {
			return err
		}
	}
	if err := os.Rename(tmp, path); err != nil && !exists(path) {
		return err
	}
	return errors.Join(flushFolder(filepath.Dir(path)), flushFolder(parent))
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// flush has what was written below a folder be on the disk, and returns what came in
// the way of it since, such as a disk that is full.
func flush(dir string) error {
	f, err := os.Open(dir) //nolint:gosec // below the folder of the repo
	if err != nil {
		return err
	}
	defer f.Close()
	return flushTree(f)
}

// flushFolder has the names in a folder be on the disk. There are file systems that cannot.
func flushFolder(dir string) error {
	f, err := os.Open(dir) //nolint:gosec // that of the repo, or one in it
	if err != nil {
		return err
	}
	defer f.Close()
	if err := f.Sync(); errors.Is(err, syscall.EIO) || errors.Is(err, syscall.ENOSPC) {
		return err
	}
	return nil
}

// sweep removes what installs that were killed have left in a folder. Errors do
// not matter: another process may sweep at the same time.
func sweep(parent string) {
	entries, _ := os.ReadDir(parent)
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), unfinished) {
			continue
		}
		if info, err := e.Info(); err == nil && time.Since(info.ModTime()) > staleAfter {
			_ = os.RemoveAll(filepath.Join(parent, e.Name()))
		}
	}
}

// mkdir makes a folder that others may read, and those above it.
func mkdir(path string) error {
	return os.MkdirAll(path, 0o755) //nolint:gosec // others may run the jobs
}

// writeFile writes a file that others may read, and makes the folders above it.
func writeFile(path string, data []byte) error {
	if err := mkdir(filepath.Dir(path)); err != nil {
		return err
	}
	return os.WriteFile(path, data, 0o644) //nolint:gosec // others may run the jobs
}

// empty removes all that is in a folder.
func empty(dir string) error {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		err = errors.Join(err, os.RemoveAll(filepath.Join(dir, e.Name())))
	}
	return err
}
