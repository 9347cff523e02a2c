package cgroup

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// Group is one of processes.
type Group struct {
	dir      string
	folder   *os.File
	overhead int64
}

// New makes a group. Until [Group.Limit] it has no limit; it has no swap, and when it has too much,
// all of its processes are killed. It must be removed.
func (p *Parent) New() (*Group, error) {
	if p == nil {
		return nil, nil
	}
	dir, err := os.MkdirTemp(p.dir, "run-*")
	if err != nil {
		return nil, err
	}
	g := &Group{dir: dir, overhead: p.overhead}
	if g.folder, err = os.Open(dir); err == nil { //nolint:gosec // just made
		err = g.write("memory.oom.group", "1")
	}
	if err == nil {
		err = g.write("memory.swap.max", "0")
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) { // a kernel without swap has no limit of it
		return nil, errors.Join(err, g.Remove())
	}
	return g, nil
}

// Join has a process that is started with these attributes begin in the group.
func (g *Group) Join(attr *syscall.SysProcAttr) {
	if g != nil {
		attr.UseCgroupFD, attr.CgroupFD = true, int(g.folder.Fd())
	}
}

// Limit keeps the group to so many MB of 2^20 bytes and the overhead; 0 is no limit.
func (g *Group) Limit(limitMB float64) error {
	switch {
	case g == nil:
		return nil
	case limitMB == 0:
		return g.write("memory.max", "max")
	}
	return g.write("memory.max", strconv.FormatInt(int64(limitMB*mb)+g.overhead, 10))
}

// Exceeded reports whether the kernel has killed a process of the group for its memory.
func (g *Group) Exceeded() bool {
	if g == nil {
		return false
	}
	events, err := os.ReadFile(filepath.Join(g.dir, "memory.events"))
	return err == nil && killed(events)
}

// killed reports whether a text of memory.events tells of a process that was killed.
func killed(events []byte) bool {
	for line := range bytes.Lines(events) {
		name, count, _ := bytes.Cut(bytes.TrimSpace(line), []byte(" "))
		if string(name) == "oom_kill" && string(count) != "0" {
			return true
		}
	}
	return false
}

// Remove kills what is left in the group, and removes it.
func (g *Group) Remove() error {
	if g == nil {
		return nil
	}
	if g.folder != nil {
		_ = g.folder.Close()
	}
	_ = g.write("cgroup.kill", "1") // since Linux 5.14; before, what is left keeps the group
	err := syscall.Rmdir(g.dir)
	for pause := time.Millisecond; errors.Is(err, syscall.EBUSY) && pause < time.Second; pause *= 2 {
		time.Sleep(pause) // the kernel tells nobody that what it killed is gone
		err = syscall.Rmdir(g.dir)
	}
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

func (g *Group) write(file, text string) error {
	return write(filepath.Join(g.dir, file), text)
}

// write writes a file of the kernel's, and makes none.
func write(path, text string) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0) //nolint:gosec // a file of the kernel's
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}
