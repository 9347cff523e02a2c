// Package owned tells who may change what is in a folder, for all that keeps something there
// which others must not: code, tokens, what is left to be sent. It looks and changes nothing; by
// the time of the answer, the folder may be another. Its functions may be called concurrently.
package owned

import (
	"io/fs"
	"os"
	"path/filepath"
)

// ChangedBy returns the folder by which others than root and this process's user can change
// what is in dir, empty if there is none: dir itself, or one above it. Of a dir that is not
// there yet, whoever can make it is one of them.
func ChangedBy(dir string) string {
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
		if mayChange(at, info) && (at == there || info.Mode()&fs.ModeSticky == 0) {
			return at
		}
		if at == filepath.Dir(at) {
			return ""
		}
	}
}

// mayChange reports whether others than root and this process's user can change a folder.
func mayChange(path string, folder fs.FileInfo) bool {
	owner := By(folder)
	return owner != 0 && owner != os.Geteuid() || WrittenByOthers(path, folder)
}
