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
	name string
}

// Keep writes the token of a worker that listens at the address, to the first of the
// folders that takes it. What a worker that was killed has left there is overwritten. A
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
	if err := write(root, name, token); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", folder, err), root.Close())
	}
	f := &File{root: root, name: name}
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

// write makes the file, which has its name only once it is whole.
func write(root *os.Root, name, token string) error {
	unfinished := name + ".new"
	if err := root.Remove(unfinished); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	file, err := root.OpenFile(unfinished, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = file.WriteString(token + "\n")
	if err = errors.Join(err, file.Close()); err == nil {
		err = root.Rename(unfinished, name)
	}
	return err
}

// Path returns where the token is.
func (f *File) Path() string { return filepath.Join(f.root.Name(), f.name) }

// Remove removes it. Call it once, while the address is still listened at: later, it
// could be the file of the next worker.
func (f *File) Remove() {
	_ = f.root.Remove(f.name) // who has taken it away already, has done it
	_ = f.lock.Close()        // nil does no harm
	_ = f.root.Close()
}
