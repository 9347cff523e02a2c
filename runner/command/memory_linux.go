package command

import (
	"bytes"
	"errors"
	"os"
	"slices"
	"strconv"
	"syscall"
)

// groupMemory measures the memory of a process and its descendants.
type groupMemory struct {
	leader  int
	tmp     string
	members []int
	// until counts down to the next search for members, which takes a look at
	// every process of the machine.
	until int
}

const searchEvery = 10

func newGroupMemory(leader int, tmp string) *groupMemory {
	// It has no children yet.
	return &groupMemory{leader: leader, tmp: tmp, members: []int{leader}, until: searchEvery}
}

// resident returns how much physical memory the group has mapped, in bytes. What
// its processes share is counted for each of them.
func (g *groupMemory) resident() int64 {
	if g.until--; g.until < 0 {
		g.until = searchEvery
		g.members = kin(g.leader, g.tmp)
	}
	var pages int64
	for _, pid := range g.members {
		// size resident shared …, in pages
		pages += field(readProc(pid, "statm"), 1)
	}
	return pages * int64(os.Getpagesize())
}

// proportional is resident, but what processes share is divided among them. It
// takes a walk through their page tables, so it is only asked when resident is
// too much. Where the kernel does not tell, it is resident.
func (g *groupMemory) proportional() int64 {
	var kB int64
	for _, pid := range g.members {
		_, after, found := bytes.Cut(readProc(pid, "smaps_rollup"), []byte("\nPss:"))
		if !found {
			kB += field(readProc(pid, "statm"), 1) * int64(os.Getpagesize()) >> 10
			continue
		}
		kB += field(after, 0)
	}
	return kB << 10
}

// readProc returns a file about a process, nil when the process is gone. It makes no more calls than that
// takes, since all processes of a machine are looked at whenever one ends.
func readProc(pid int, name string) []byte {
	fd, err := syscall.Open("/proc/"+strconv.Itoa(pid)+"/"+name, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	defer func() { _ = syscall.Close(fd) }()
	data := make([]byte, 0, 4<<10)
	for {
		data = slices.Grow(data, 1)
		n, err := syscall.Read(fd, data[len(data):cap(data)])
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return nil
		case n == 0:
			return data
		default:
			data = data[:len(data)+n]
		}
	}
}

// field returns the nth number of a text, from 0; 0 if there is none.
func field(text []byte, n int) int64 {
	fields := bytes.Fields(text)
	if n >= len(fields) {
		return 0
	}
	value, _ := strconv.ParseInt(string(fields[n]), 10, 64)
	return value
}
