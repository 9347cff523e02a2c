package npm

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"hash"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// A cache keeps archives and metadata in a folder, which is private: what registries say may
// be for those with credentials only. A file gets its name when it is complete, and is
// compared with its sum when it is read.
type cache struct{ dir string }

const (
	archives = "archives"
	metadata = "metadata"
	begun    = "begun"
	// staleAfter is how old a file is that nobody completes any more.
	staleAfter = time.Hour
	// usedAgain is how often the use of a file is noted.
	usedAgain = time.Hour
)

func (c cache) open() error {
	for _, name := range []string{archives, metadata, begun} {
		if err := os.MkdirAll(filepath.Join(c.dir, name), 0o700); err != nil {
			return &CacheError{c.dir, err}
		}
	}
	return nil
}

// CacheError is why the cache cannot be used: the disk is full, for instance.
type CacheError struct {
	Dir string
	Err error
}

func (e *CacheError) Error() string { return "the cache of packages cannot be used: " + e.Err.Error() }

func (e *CacheError) Unwrap() error { return e.Err }

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

// read returns an archive. One that is damaged is as good as none.
func (c cache) read(of sum) ([]byte, bool) {
	path := c.archive(of)
	raw, err := os.ReadFile(path) //nolint:gosec // named by its sum
	if err != nil {
		return nil, false
	}
	if sha512.Sum512(raw) != of {
		_ = os.Remove(path)
		return nil, false
	}
	used(path)
	return raw, true
}

func (c cache) has(of sum) bool {
	_, err := os.Stat(c.archive(of))
	return err == nil
}

// used notes that a file is needed, for the least used go first.
func used(path string) {
	if info, err := os.Stat(path); err == nil && time.Since(info.ModTime()) > usedAgain {
		now := time.Now()
		_ = os.Chtimes(path, now, now)
	}
}

// store keeps what r has, if name agrees when all of it was read, under what that returns.
func (c cache) store(r io.Reader, name func() (string, error)) error {
	f, err := os.CreateTemp(filepath.Join(c.dir, begun), "")
	if err != nil {
		return &CacheError{c.dir, err}
	}
	defer os.Remove(f.Name()) // fails when it has its name
	_, err = io.Copy(keeping{f, c.dir}, r)
	if closed := f.Close(); err == nil && closed != nil {
		err = &CacheError{c.dir, closed}
	}
	if err != nil {
		return err
	}
	path, err := name()
	if err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return &CacheError{c.dir, err}
	}
	return nil
}

// keeping tells faults of the disk from those of what is read.
type keeping struct {
	f   *os.File
	dir string
}

func (k keeping) Write(p []byte) (int, error) {
	n, err := k.f.Write(p)
	if err != nil {
		err = &CacheError{k.dir, err}
	}
	return n, err
}

// storeArchive keeps an archive if it has the sum.
func (c cache) storeArchive(r io.Reader, of sum) error {
	h := sha512.New()
	return c.store(io.TeeReader(r, h), func() (string, error) {
		if !equal(h, of[:]) {
			return "", errSum
		}
		return c.archive(of), nil
	})
}

var errSum = errors.New("the archive is not the one that the registry announced: its SHA-512 sum is another")

func equal(h hash.Hash, want []byte) bool { return bytes.Equal(h.Sum(nil), want) }

// An entry is the metadata of a package, as it came at some time.
type entry struct {
	Address string    `json:"address"`
	Tag     string    `json:"tag"`
	Asked   time.Time `json:"asked"`
	Sum     []byte    `json:"sum"` // of the document: SHA-256
	Rest    []byte    `json:"-"`
}

func (c cache) document(address string) string {
	name := sha256.Sum256([]byte(address))
	return filepath.Join(c.dir, metadata, hex.EncodeToString(name[:]))
}

func (c cache) readDocument(address string) (entry, bool) {
	path := c.document(address)
	raw, err := os.ReadFile(path) //nolint:gosec // named by a sum
	head, rest, _ := bytes.Cut(raw, []byte("\n"))
	var e entry
	if err != nil || json.Unmarshal(head, &e) != nil || e.Address != address {
		return entry{}, false
	}
	if is := sha256.Sum256(rest); !bytes.Equal(is[:], e.Sum) {
		return entry{}, false
	}
	e.Rest = rest
	return e, true
}

func (c cache) storeDocument(e entry) error {
	is := sha256.Sum256(e.Rest)
	e.Sum = is[:]
	head, err := json.Marshal(e)
	if err != nil {
		return err
	}
	text := io.MultiReader(bytes.NewReader(append(head, '\n')), bytes.NewReader(e.Rest))
	return c.store(text, func() (string, error) { return c.document(e.Address), nil })
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
	for _, folder := range []string{archives, metadata, begun} {
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
