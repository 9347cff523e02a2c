//go:build unix

package worker

import (
	"os/exec"
	"syscall"
)

// ownGroup has the command lead a process group of its own, and returns what ends all of it.
func ownGroup(cmd *exec.Cmd) (kill func()) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) } // it may have gone
}

// terminate is what Kubernetes and systemd do to the main process.
func terminate(cmd *exec.Cmd) error { return cmd.Process.Signal(syscall.SIGTERM) }
