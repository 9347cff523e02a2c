package npm

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/phxworker/phxworker/internal/owned"
)

// A cache keeps archives, metadata and what was made of them in a folder, which is private: what registries
// say may be for those with credentials only. A file gets its name when it is complete, and is compared with
// its sum when it is read.
type cache struct{ dir string }

const (
	archives = "archives"
	metadata = "metadata"
	made     = "made"
	begun    = "begun"
	// staleAfter is how old a file is that nobody completes any more.
	staleAfter = time.Hour
	// usedAgain is how often the use of a file is noted.
	usedAgain = time.Hour
)

func (c cache) open() error {
	for _, name := range []string{archives, metadata, made, begun} {
		if err := os.MkdirAll(filepath.Join(c.dir, name), 0o700); err != nil {
			return &CacheError{c.dir, err}
		}
	}
	return nil
}

// ours reports whether nobody else can write what is in a folder of the cache: no sum tells who made what is there.
func (c cache) ours(folder string) bool {
	return owned.ChangedBy(filepath.Join(c.dir, folder)) == ""
}

// A sum is that of SHA-512 of an archive.
type sum [sha512.Size]byte

func (s sum) String() string { return "sha512-" + base64.StdEncoding.EncodeToString(s[:]) }

// parseSum reads the strongest sum of npm's field integrity, which has to be SHA-512.
func parseSum(integrity string) (s sum, ok bool) {
	for one := range strings.FieldsSeq(integrity) {
		text, is := strings.CutPrefix(one, "sha512-")
		text, _, _ = strings.Cut(text, "?")
		raw, err := base64.StdEncoding.DecodeString(text)
		if is && err == nil && len(raw) == len(s) {
			return sum(raw), true
		}
	}
	return s, false
}

func (c cache) archive(of sum) string {
	return filepath.Join(c.dir, archives, hex.EncodeToString(of[:]))
}

func (c cache) has(of sum) bool {
	_, err := os.Stat(c.archive(of))
	return err == nil
}

// readArchive returns an archive. One that is damaged is as good as none.
func (c cache) readArchive(of sum) ([]byte, bool) {
	raw, err := os.ReadFile(c.archive(of))
	switch {
	case err != nil:
		return nil, false
	case sha512.Sum512(raw) != of:
		_ = os.Remove(c.archive(of))
		return nil, false
	}
	used(c.archive(of))
	return raw, true
}

// used notes that a file is needed, for the least used go first.
func used(path string) {
	if info, err := os.Stat(path); err == nil && time.Since(info.ModTime()) > usedAgain {
		touch(path)
	}
}

func touch(path string) {
	now := time.Now()
	_ = os.Chtimes(path, now, now)
}

// store keeps what write writes, unless that fails.
func (c cache) store(path string, write func(io.Writer) error) error {
	f, err := os.CreateTemp(filepath.Join(c.dir, begun), "")
	if err != nil {
		return &CacheError{c.dir, err}
	}
	defer os.Remove(f.Name()) // fails when it has its name
	err = write(f)
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if failed, ok := errors.AsType[*fs.PathError](err); ok { // of the disk, and not of what was read
		return &CacheError{c.dir, failed}
	}
	if failed, ok := errors.AsType[*os.LinkError](err); ok {
		return &CacheError{c.dir, failed}
	}
	return err
}

var errSum = errors.New("the archive is not the one that the registry announced: its SHA-512 sum is another")

// storeArchive keeps an archive if it has the sum.
func (c cache) storeArchive(r io.Reader, of sum) error {
	return c.store(c.archive(of), func(w io.Writer) error {
		h := sha512.New()
		if _, err := io.Copy(w, io.TeeReader(r, h)); err != nil {
			return err
		}
		if sum(h.Sum(nil)) != of {
			return errSum
		}
		return nil
	})
}

// sealed is the path of what has a key, and sumOf the sum of it with its key, which stands before it.
func (c cache) sealed(folder, key string) string {
	name := sha256.Sum256([]byte(key))
	return filepath.Join(c.dir, folder, hex.EncodeToString(name[:]))
}

func sumOf(key string, data []byte) []byte {
	h := sha256.New()
	h.Write([]byte(key + "\x00"))
	h.Write(data)
	return h.Sum(nil)
}

// storeSealed keeps what has a key, and returns its sum in any case.
func (c cache) storeSealed(folder, key string, data []byte) ([]byte, error) {
	sum := sumOf(key, data)
	return sum, c.store(c.sealed(folder, key), func(w io.Writer) error {
		_, err := io.Copy(w, io.MultiReader(bytes.NewReader(sum), bytes.NewReader(data)))
		return err
	})
}

// readSealed returns what has a key, if it is whole, its sum and since when it is there.
func (c cache) readSealed(folder, key string) (data, sum []byte, since time.Time, ok bool) {
	path := c.sealed(folder, key)
	info, err := os.Stat(path)
	if err != nil {
		return nil, nil, since, false
	}
	raw, err := os.ReadFile(path) //nolint:gosec // named by a sum
	if err != nil || len(raw) < sha256.Size || !bytes.Equal(sumOf(key, raw[sha256.Size:]), raw[:sha256.Size]) {
		return nil, nil, since, false
	}
	return raw[sha256.Size:], raw[:sha256.Size], info.ModTime(), true
}

// lessen removes what was not used for longest, until at most limit bytes are left, and what
// nobody completes any more. Another process may do the same.
func (c cache) lessen(limit int64) {
	type file struct {
		path string
		size int64
		used time.Time
	}
	var all []file
	var total int64
	for _, folder := range []string{archives, metadata, made, begun} {
		entries, _ := os.ReadDir(filepath.Join(c.dir, folder)) // what cannot be looked at stays
		for _, e := range entries {
			path := filepath.Join(c.dir, folder, e.Name())
			info, err := e.Info()
			switch {
			case err != nil:
			case folder != begun:
				all, total = append(all, file{path, info.Size(), info.ModTime()}), total+info.Size()
			case time.Since(info.ModTime()) > staleAfter:
				_ = os.Remove(path)
			}
		}
	}
	if total <= limit {
		return
	}
	slices.SortFunc(all, func(a, b file) int { return cmp.Or(a.used.Compare(b.used), strings.Compare(a.path, b.path)) })
	for _, f := range all {
		if total <= limit*4/5 {
			return
		}
		if os.Remove(f.path) == nil {
			total -= f.size
		}
	}
}
