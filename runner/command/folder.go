package command

import (
	"crypto/rand"
	"io/fs"
	"iter"
	"log/slog"
	"os"
	"path/filepath"
	"time"
)

// removeFolder removes the folder of a dead process. What its descendants were
// writing as they were killed may still appear for a moment.
func removeFolder(dir string, log *slog.Logger) {
	var err error
	for range 20 {
		if err = removeTree(dir); err == nil {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	log.Warn("a folder of temporary files could not be removed, and is tried again at the next start", "folder", dir, "error", err)
}

// removeTree removes a folder with all below. There may be folders in it that nobody may
// enter, and more levels than a path can be long or a process have descriptors. So it moves
// each folder to the first level before it looks into it.
func removeTree(dir string) error {
	if info, err := os.Lstat(dir); err != nil || !info.IsDir() {
		return os.RemoveAll(dir)
	}
	parent, err := os.OpenRoot(filepath.Dir(dir))
	if err != nil {
		return err
	}
	defer func() { _ = parent.Close() }()
	name := filepath.Base(dir)
	_ = parent.Chmod(name, 0o700)
	top, err := parent.OpenRoot(name)
	if err != nil {
		return err
	}
	defer func() { _ = top.Close() }()
	for fewer := true; fewer; {
		fewer = false
		for entry := range entries(top, ".") {
			fewer = dissolve(top, entry) || fewer
		}
	}
	return parent.Remove(name)
}

// dissolve removes what is in a folder but the folders that have something in them. These it
// moves up. It reports whether it did any of that.
func dissolve(top *os.Root, folder fs.DirEntry) (done bool) {
	if remove(top, folder.Name(), folder) {
		return true
	}
	if !folder.IsDir() {
		return false
	}
	for entry := range entries(top, folder.Name()) {
		path := filepath.Join(folder.Name(), entry.Name())
		if remove(top, path, entry) || entry.IsDir() && top.Rename(path, rand.Text()) == nil {
			done = true
		}
	}
	return top.Remove(folder.Name()) == nil || done
}

// remove removes a file or a folder without any. It gives the owner of a folder all rights
// on it before.
func remove(top *os.Root, path string, entry fs.DirEntry) bool {
	if entry.IsDir() {
		_ = top.Chmod(path, 0o700)
	}
	return top.Remove(path) == nil
}

// entries yields what is in a folder.
func entries(top *os.Root, folder string) iter.Seq[fs.DirEntry] {
	return func(yield func(fs.DirEntry) bool) {
		file, err := top.Open(folder)
		if err != nil {
			return
		}
		defer func() { _ = file.Close() }()
		for err == nil {
			var some []fs.DirEntry
			some, err = file.ReadDir(1024)
			for _, entry := range some {
				if !yield(entry) {
					return
				}
			}
		}
	}
}

// unlock gives the owner back all rights on the folders below dir to which a path leads, and
// follows no link out of it.
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
