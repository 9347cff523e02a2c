//go:build unix

package runner

import (
	"io/fs"
	"os"
	"syscall"
)

// atOnce keeps the opening of a pipe from waiting for who writes to it.
const atOnce = syscall.O_NONBLOCK

// ownerOf returns the user that a file belongs to.
func ownerOf(info fs.FileInfo) int {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(stat.Uid)
	}
	return os.Geteuid()
}
