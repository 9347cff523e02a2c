package options

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// exposedBy returns the folder by which others than root and the worker's user can change
// what is in dir, empty if there is none: dir itself, or one above it. Code that lies in
// dir is executed. Of a dir that is not there yet, whoever can make it is one of them.
func exposedBy(dir string) string {
	path, err := filepath.Abs(dir)
	if err != nil {
		return ""
	}
	there := path
	for _, err = os.Stat(there); err != nil && there != filepath.Dir(there); _, err = os.Stat(there) {
		there = filepath.Dir(there)
	}
	if there, err = filepath.EvalSymlinks(there); err != nil {
		return ""
	}
	for at := there; ; at = filepath.Dir(at) {
		info, err := os.Stat(at)
		if err != nil {
			return ""
		}
		// Where everybody may write, a sticky bit keeps them from what is another's.
		if othersMayChange(at, info) && (at == there || info.Mode()&fs.ModeSticky == 0) {
			return at
		}
		if at == filepath.Dir(at) {
			return ""
		}
	}
}

func othersMayChange(path string, info fs.FileInfo) bool {
	is, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return false
	}
	if is.Uid != 0 && int(is.Uid) != os.Geteuid() {
		return true
	}
	byGroup := info.Mode()&0o020 != 0 && is.Gid != 0 && is.Gid != is.Uid // else the group is root's, or the owner's own
	return (info.Mode()&0o002 != 0 || byGroup) && !isMount(path, is)
}

// isMount reports whether a file system begins at a folder. Container platforms mount
// volumes with all rights for everybody, where there is nobody else.
func isMount(path string, is *syscall.Stat_t) bool {
	above, err := os.Stat(filepath.Dir(path))
	if err != nil {
		return false
	}
	of, ok := above.Sys().(*syscall.Stat_t)
	return ok && of.Dev != is.Dev
}
