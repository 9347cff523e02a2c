package cgroup

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// leaf is the name of the group that this process, and all that were with it, are moved into. People would
// call none so.
const leaf = "phxworker-leaf"

// Parent is the group that those of processes are made in.
type Parent struct {
	dir      string
	overhead int64 // bytes, for each of them
}

// Open makes the group of this process one that others can be made in; see the package comment. Each of
// them may have so many MB of 2^20 bytes besides its limit. The error is one line that says what is missing.
func Open(overheadMB int) (*Parent, error) {
	p, err := find()
	if err != nil {
		return nil, err
	}
	p.overhead = int64(overheadMB) * mb
	if err := p.delegate(); err != nil {
		return nil, err
	}
	return p, p.try()
}

// Check returns why [Open] would fail here, as far as that can be known without changing anything: a process
// that is started elsewhere has another group.
func Check() error {
	p, err := find()
	if err != nil {
		return err
	}
	if !p.lists("cgroup.controllers") {
		return p.lacksMemory()
	}
	const writable = 2
	for _, name := range []string{"", "cgroup.procs", "cgroup.subtree_control"} {
		path := filepath.Join(p.dir, name)
		if err := syscall.Access(path, writable); err != nil {
			return &os.PathError{Op: "write", Path: path, Err: err}
		}
	}
	return nil
}

// find finds the group of this process.
func find() (*Parent, error) {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	groups, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil, err
	}
	dir, err := own(string(mounts), string(groups))
	if err != nil {
		return nil, err
	}
	return &Parent{dir: outOfLeaf(dir)}, nil
}

// outOfLeaf returns the group in which a leaf was made: this process was moved before, by a worker that it
// replaced. Any other group is returned as it is.
func outOfLeaf(dir string) string {
	if filepath.Base(dir) == leaf {
		return filepath.Dir(dir)
	}
	return dir
}

// own returns the folder of this process's group. What it is given are the texts of mountinfo and cgroup in
// /proc/self.
func own(mounts, groups string) (string, error) {
	var root, at string
	for line := range strings.Lines(mounts) {
		before, after, _ := strings.Cut(line, " - ")
		// id parent device root mountpoint …  - type …
		if f := strings.Fields(before); len(f) > 4 && strings.HasPrefix(after, "cgroup2 ") {
			root, at = f[3], f[4]
		}
	}
	if at == "" {
		return "", errors.New("control groups of version 2 are not mounted here")
	}
	for line := range strings.Lines(groups) {
		path, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "0::")
		if !ok {
			continue
		}
		// What is mounted may be a group below the root, as in a container.
		within, err := filepath.Rel(root, path)
		if err != nil || within == ".." || strings.HasPrefix(within, "../") {
			return "", fmt.Errorf("the group of the worker, %s, is not among those that are mounted at %s", path, at)
		}
		return filepath.Join(at, within), nil
	}
	return "", errors.New("the worker is in no control group of version 2")
}

// delegate has the kernel count the memory of groups in this one.
func (p *Parent) delegate() error {
	if p.lists("cgroup.subtree_control") {
		return nil
	}
	if !p.lists("cgroup.controllers") {
		return p.lacksMemory()
	}
	err := p.enable()
	if errors.Is(err, syscall.EBUSY) { // there are processes in it
		if err = p.vacate(); err == nil {
			err = p.enable()
		}
	}
	return err
}

func (p *Parent) lacksMemory() error {
	return fmt.Errorf("%s has no controller of memory: it has to be delegated to the worker", p.dir)
}

func (p *Parent) enable() error {
	return write(filepath.Join(p.dir, "cgroup.subtree_control"), "+memory")
}

// lists reports whether memory is among the controllers that a file names.
func (p *Parent) lists(file string) bool {
	text, err := os.ReadFile(filepath.Join(p.dir, file)) //nolint:gosec // a file of the kernel's
	return err == nil && slices.Contains(strings.Fields(string(text)), "memory")
}

// vacate moves all processes into the leaf. Some may have ended meanwhile.
func (p *Parent) vacate() error {
	target := filepath.Join(p.dir, leaf)
	if err := os.Mkdir(target, 0o750); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	text, err := os.ReadFile(filepath.Join(p.dir, "cgroup.procs"))
	if err != nil {
		return err
	}
	for pid := range strings.FieldsSeq(string(text)) {
		err := write(filepath.Join(target, "cgroup.procs"), pid)
		if err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("process %s cannot be moved into %s: %w", pid, target, err)
		}
	}
	return nil
}

// try sees whether a process can be started in a group. What it starts is not there: the kernel makes
// the process in the group first, and only then looks for the program.
func (p *Parent) try() error {
	g, err := p.New()
	if err != nil {
		return err
	}
	defer func() { _ = g.Remove() }()
	attr := &syscall.SysProcAttr{}
	g.Join(attr)
	nothing := exec.Cmd{Path: filepath.Join(g.dir, "nothing"), SysProcAttr: attr}
	if err := nothing.Start(); !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("no process can be started in a group of %s: %w", p.dir, err)
	}
	return nil
}
