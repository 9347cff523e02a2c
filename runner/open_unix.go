//go:build unix

package runner

import "syscall"

// atOnce keeps the opening of a pipe from waiting for who writes to it.
const atOnce = syscall.O_NONBLOCK
