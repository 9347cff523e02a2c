//go:build linux || darwin

package command

import (
	"errors"
	"syscall"
	"unsafe"
)

// killGroup kills all processes of the group that the process leads. It must not
// be called once the leader has been reaped: by then its id may be another's.
func killGroup(pid int) { _ = syscall.Kill(-pid, syscall.SIGKILL) }

// awaitExit returns when the process has exited, and leaves it to be reaped, so
// that its id, and that of its group, stay its own. The standard library waits so
// too, but reaps in the same call.
func awaitExit(pid int) {
	const byPID = 1     // P_PID, on Linux and on darwin
	var info [16]uint64 // room for a siginfo_t, which nobody reads
	for {
		//nolint:gosec // the kernel fills it in during the call
		_, _, errno := syscall.Syscall6(syscall.SYS_WAITID, byPID, uintptr(pid), uintptr(unsafe.Pointer(&info)), syscall.WEXITED|syscall.WNOWAIT, 0, 0)
		if !errors.Is(errno, syscall.EINTR) {
			return
		}
	}
}
