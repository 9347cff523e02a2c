package command

import (
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// removeFolder removes the folder of a dead process. What its descendants were
// writing as they were killed may still appear for a moment, and folders may
// have been made that nobody may enter.
func removeFolder(dir string) {
	for range 20 {
		if os.RemoveAll(dir) == nil {
			return
		}
		unlock(dir)
		time.Sleep(5 * time.Millisecond)
	}
}

// unlock gives the owner back all rights on the folders below dir, and follows
// no link out of it.
func unlock(dir string) {
	info, err := os.Lstat(dir)
	if err != nil || !info.IsDir() {
		return
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		_ = os.Chmod(dir, 0o700) //nolint:gosec // it is a folder
		return
	}
	defer func() { _ = root.Close() }()
	_ = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, _ error) error {
		if entry == nil || !entry.IsDir() {
			return nil
		}
		if name, err := filepath.Rel(dir, path); err == nil {
			_ = root.Chmod(name, 0o700)
		}
		return nil
	})
}
