package token

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// New returns a token that nobody can guess.
func New() string { return rand.Text() }

// suffix is how the names of files end.
const suffix = ".token"

// File is a token that is kept.
type File struct {
	root *os.Root
	lock *os.File
	file *os.File // locked as long as its worker lives
	name string
}

// Keep writes the token of a worker that listens at the address, to the first of the
// folders that takes it. What workers that were killed have left there is removed. A
// folder below one of the shown ones takes nothing: jobs can read what is there. The
// error says of each folder what is wrong with it.
func Keep(folders, shown []string, address net.Addr, token string) (*File, error) {
	var reasons []string
	for _, folder := range folders {
		file, err := keepIn(folder, shown, address.String()+suffix, token)
		if err == nil {
			return file, nil
		}
		reasons = append(reasons, err.Error())
	}
	return nil, errors.New(strings.Join(reasons, "; "))
}

func keepIn(folder string, shown []string, name, token string) (*File, error) {
	if err := os.Mkdir(folder, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	root, _, err := openFolder(folder, true)
	if err != nil {
		return nil, err
	}
	for _, dir := range shown {
		if dir != "" && below(folder, dir) {
			return nil, errors.Join(fmt.Errorf("jobs can read %s, which is below %s", folder, dir), root.Close())
		}
	}
	sweep(root)
	file, err := write(root, name, token)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", folder, err), root.Close())
	}
	f := &File{root: root, file: file, name: name}
	// systemd removes from /tmp what is old, but nothing from a folder that is locked.
	if f.lock, err = root.Open("."); err == nil {
		_ = syscall.Flock(int(f.lock.Fd()), syscall.LOCK_SH|syscall.LOCK_NB)
	}
	return f, nil
}

// below reports whether a folder is another one or lies somewhere in it, whatever
// links lead to the two.
func below(folder, dir string) bool {
	path, err := filepath.Rel(realPath(dir), realPath(folder))
	return err == nil && filepath.IsLocal(path)
}

// realPath returns the path without links, as it is for what is not there.
func realPath(path string) string {
	path, _ = filepath.Abs(path) // fails only without a working folder
	if resolved, err := filepath.EvalSymlinks(path); err == nil {
		return resolved
	}
	return path
}

// sweep removes the files of workers that are no more. A worker whose port is another each
// time would not come upon its own again.
func sweep(root *os.Root) {
	names, _ := fs.Glob(root.FS(), "*"+suffix) // without the names, all stay
	for _, name := range names {
		if info, err := root.Lstat(name); err != nil || !info.Mode().IsRegular() {
			continue
		}
		file, err := root.Open(name)
		if err != nil {
			continue
		}
		// The kernel takes the lock away with the process, in other containers, too.
		if syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
			removeFile(root, name, file)
		}
		_ = file.Close()
	}
}

// removeFile removes the file of that name if it is this one.
func removeFile(root *os.Root, name string, file *os.File) {
	named, err := root.Lstat(name)
	if err != nil {
		return // who has taken it away already, has done it
	}
	if this, err := file.Stat(); err == nil && os.SameFile(named, this) {
		_ = root.Remove(name)
	}
}

// write makes the file and locks it. It has its name only once it is whole.
func write(root *os.Root, name, token string) (*os.File, error) {
	unfinished := name + ".new"
	if err := root.Remove(unfinished); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	file, err := root.OpenFile(unfinished, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	// Where files cannot be locked, no sweep can lock this one either, so it stays.
	_ = syscall.Flock(int(file.Fd()), syscall.LOCK_SH|syscall.LOCK_NB)
	if _, err = file.WriteString(token + "\n"); err == nil {
		err = root.Rename(unfinished, name)
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// Path returns where the token is.
func (f *File) Path() string { return filepath.Join(f.root.Name(), f.name) }

// Remove removes it, unless a worker in another container, with an address like it, has
// written another one there. Call it once. None, which is nil, is removed already.
func (f *File) Remove() {
	if f == nil {
		return
	}
	removeFile(f.root, f.name, f.file)
	_ = f.file.Close()
	_ = f.lock.Close() // nil does no harm
	_ = f.root.Close()
}
