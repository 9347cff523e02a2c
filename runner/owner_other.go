//go:build !unix

package runner

import (
	"io/fs"
	"os"
)

const atOnce = 0

// ownerOf does not know: there are no such owners here.
func ownerOf(fs.FileInfo) int { return os.Geteuid() }
