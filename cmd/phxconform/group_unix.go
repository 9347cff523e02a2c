//go:build unix

package main

import (
	"os/exec"
	"syscall"
)

// killGroup has the command lead a process group of its own, all of which is killed when its context ends.
func killGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}
