package adaptors

import (
	"os"

	"golang.org/x/sys/unix"
)

// flushTree flushes all file systems: it is for a worker that is being developed.
func flushTree(*os.File) error { return unix.Sync() }
