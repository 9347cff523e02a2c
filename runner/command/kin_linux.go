package command

import (
	"bytes"
	"os"
	"strconv"
	"strings"
)

// kin returns the processes that descend from one that was given the folder tmp
// and, unless it is 0, led the group: those of the group, those that inherited the
// folder in their environment, as HOME and TMPDIR, and those that work in it. A
// descendant has to leave all three to be overlooked.
//
// It takes a look at every process of the machine, some 20 µs for each.
func kin(group int, tmp string) []int {
	proc, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer func() { _ = proc.Close() }()
	names, _ := proc.Readdirnames(-1)
	var found []int
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err == nil && isKin(pid, group, tmp) {
			found = append(found, pid)
		}
	}
	return found
}

func isKin(pid, group int, tmp string) bool {
	if group != 0 {
		// pid (name) state parent group …; the name may have anything in it
		stat := readProc(pid, "stat")
		if field(stat[bytes.LastIndexByte(stat, ')')+1:], 2) == int64(group) {
			return true
		}
	}
	if bytes.Contains(readProc(pid, "environ"), []byte("="+tmp+"\x00")) {
		return true
	}
	cwd, err := os.Readlink("/proc/" + strconv.Itoa(pid) + "/cwd")
	return err == nil && (cwd == tmp || strings.HasPrefix(cwd, tmp+"/"))
}

// killKin kills what a dead process has left behind outside of its group: a child
// needs no more than setsid to get there.
func killKin(tmp string) {
	for range 10 { // they may fork meanwhile
		found := kin(0, tmp)
		if len(found) == 0 {
			return
		}
		for _, pid := range found {
			killOne(pid, tmp)
		}
	}
}

// killOne kills a process through a handle, if it is still what it was when it
// was found.
func killOne(pid int, tmp string) {
	proc, err := os.FindProcess(pid)
	if err != nil {
		return
	}
	defer func() { _ = proc.Release() }()
	if isKin(pid, 0, tmp) {
		_ = proc.Kill()
	}
}
