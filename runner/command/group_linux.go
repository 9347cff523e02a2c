package command

import "syscall"

// ownGroup makes a process lead a group of its own, and die when the thread that
// started it does: even a worker that is killed leaves no process behind.
func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
