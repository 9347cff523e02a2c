//go:build !unix

package worker

import (
	"errors"
	"os/exec"
)

func ownGroup(cmd *exec.Cmd) (kill func()) {
	return func() { _ = cmd.Process.Kill() } // it may have gone
}

func terminate(*exec.Cmd) error { return errors.New("there is no SIGTERM on this system") }
