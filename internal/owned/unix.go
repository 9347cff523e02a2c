//go:build unix

package owned

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// By returns the user that a file or folder belongs to.
func By(info fs.FileInfo) int {
	if is, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(is.Uid)
	}
	return -1 // nobody
}

// WrittenByOthers reports whether the mode of a folder lets others than its owner write into it. A
// group of root's, or of the owner alone, is nobody else. Nor is anybody at a mount point:
// container platforms mount volumes with all rights for everybody, where there is nobody else.
func WrittenByOthers(path string, folder fs.FileInfo) bool {
	is, ok := folder.Sys().(*syscall.Stat_t)
	if !ok {
		return false
	}
	byGroup := folder.Mode()&0o020 != 0 && is.Gid != 0 && is.Gid != is.Uid
	return (folder.Mode()&0o002 != 0 || byGroup) && !isMount(path, is)
}

// isMount reports whether a file system begins at a folder.
func isMount(path string, is *syscall.Stat_t) bool {
	above, err := os.Stat(filepath.Dir(path))
	if err != nil {
		return false
	}
	of, ok := above.Sys().(*syscall.Stat_t)
	return ok && of.Dev != is.Dev
}
