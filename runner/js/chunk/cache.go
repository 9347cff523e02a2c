package chunk

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/phxworker/phxworker/internal/owned"
	"github.com/phxworker/phxworker/runner/js/vm"
)

// Cache keeps bytecode in a folder. QuickJS believes what it is given, so a file is what it was when its hash says so,
// and nobody else may write into the folder. Workers may share it: a file gets its name when it is complete. It
// may be used concurrently.
type Cache struct {
	root    *os.Root // nil where nothing is kept
	most    int64
	compile func(text string) ([]byte, error)
}

const (
	// touchAfter is how old the note of a use may be, and staleAfter a file that nobody completes any more.
	touchAfter = time.Hour
	staleAfter = time.Hour
	partial    = ".partial"
)

// OpenCache returns a Cache in a folder, which is made if need be; in none, it keeps nothing. The folder is to take
// mostBytes at most, see [Cache.Lessen]. What compile returns of a text is bytecode. Close it.
func OpenCache(dir string, mostBytes int64, compile func(text string) ([]byte, error)) (*Cache, error) {
	c := &Cache{most: mostBytes, compile: compile}
	if dir == "" {
		return c, nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("chunks: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("chunks: %w", err)
	}
	info, err := root.Stat(".")
	if err == nil && (info.Mode().Perm()&0o077 != 0 || owned.By(info) != os.Geteuid()) {
		err = fmt.Errorf("%s may be read or written by others: it has to be this user's, with the mode 0700", dir)
	}
	if err != nil {
		_ = root.Close()
		return nil, fmt.Errorf("chunks: %w", err)
	}
	c.root = root
	return c, nil
}

// Close frees the folder.
func (c *Cache) Close() error {
	if c.root == nil {
		return nil
	}
	return c.root.Close()
}

// read returns what a file has if it is whole.
func (c *Cache) read(name string) ([]byte, bool) {
	if c.root == nil {
		return nil, false
	}
	data, err := c.root.ReadFile(name)
	if err != nil || len(data) < sha256.Size {
		return nil, false
	}
	if subtle.ConstantTimeCompare(sumOf(name, data[sha256.Size:]), data[:sha256.Size]) != 1 {
		return nil, false
	}
	if info, err := c.root.Stat(name); err == nil && time.Since(info.ModTime()) > touchAfter {
		now := time.Now()
		_ = c.root.Chtimes(name, now, now) // the oldest go first; a folder that takes no writes is not lessened either
	}
	return data[sha256.Size:], true
}

// sumOf is for a file of that name: one that was put in the place of another is none.
func sumOf(name string, data []byte) []byte {
	h := sha256.New()
	h.Write([]byte(name))
	h.Write(data)
	return h.Sum(nil)
}

// write keeps data under a name. A folder that takes none only costs time.
func (c *Cache) write(name string, data []byte) {
	if c.root == nil {
		return
	}
	begun := fmt.Sprintf("%s.%d.%d%s", name, os.Getpid(), time.Now().UnixNano(), partial)
	err := c.root.WriteFile(begun, append(sumOf(name, data), data...), 0o600)
	if err == nil {
		err = c.root.Rename(begun, name)
	}
	if err != nil {
		_ = c.root.Remove(begun)
	}
}

// Lessen removes what was not used for longest, until the folder has no more than it may. Others may do the same.
func (c *Cache) Lessen() error {
	if c.root == nil {
		return nil
	}
	entries, err := fs.ReadDir(c.root.FS(), ".")
	if err != nil {
		return fmt.Errorf("chunks: %w", err)
	}
	var files []fs.FileInfo
	var total int64
	for _, entry := range entries {
		info, err := entry.Info()
		switch {
		case err != nil || !info.Mode().IsRegular():
		case !strings.HasSuffix(info.Name(), partial):
			files, total = append(files, info), total+info.Size()
		case time.Since(info.ModTime()) > staleAfter:
			_ = c.root.Remove(info.Name())
		}
	}
	slices.SortFunc(files, func(a, b fs.FileInfo) int { return a.ModTime().Compare(b.ModTime()) })
	for _, oldest := range files {
		if total <= c.most {
			break
		}
		if err := c.root.Remove(oldest.Name()); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("chunks: %w", err)
		}
		total -= oldest.Size()
	}
	return nil
}

// engineVersion is that of QuickJS, whose bytecode no other version may read, and of what bundles.
func engineVersion() string {
	versions := []string{vm.Version}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, module := range info.Deps {
			switch module.Path {
			case "modernc.org/libquickjs", "github.com/evanw/esbuild":
				versions = append(versions, module.Path+"@"+module.Version)
			}
		}
	}
	return strings.Join(versions, " ")
}
