package chunk

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"modernc.org/quickjs"
)

// Store keeps the bytecode of chunks in a folder. QuickJS believes what it is given, so a file is what it was when its
// hash says so, and the folder is its user's alone. Workers may share it: a file gets its name when it is complete. It
// may be used concurrently.
type Store struct {
	maker *Maker
	root  *os.Root
	key   []byte
	most  int64

	mu    sync.Mutex
	ready map[string][]byte // the bytecode by the id of its chunk
}

// NewStore returns a Store in a folder, which is made if need be, for the packages of a tree. integrity is what the
// versions and contents of these are known by, such as the hashes of a lockfile; another one never finds the same
// chunks. The folder takes mostBytes at most, the oldest files going first. Close it.
func NewStore(dir string, maker *Maker, integrity string, mostBytes int64) (*Store, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("chunks: %w", err)
	}
	info, err := os.Stat(dir)
	if err == nil && info.Mode().Perm()&0o077 != 0 {
		err = fmt.Errorf("%s may be read or written by others: give it the mode 0700", dir)
	}
	if err != nil {
		return nil, fmt.Errorf("chunks: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("chunks: %w", err)
	}
	sum := sha256.Sum256([]byte(integrity + "\x00" + makersVersion + "\x00" + standInsVersion() + "\x00" + engineVersion()))
	return &Store{maker: maker, root: root, key: sum[:], most: mostBytes, ready: make(map[string][]byte)}, nil
}

// Close frees the folder.
func (s *Store) Close() error { return s.root.Close() }

// Bytecode returns the bytecode of a chunk, made now if need be.
func (s *Store) Bytecode(id string) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if code := s.ready[id]; code != nil {
		return code, nil
	}
	name := s.fileOf(id)
	code, ok := s.read(name)
	if !ok {
		var err error
		if code, err = s.compile(id); err != nil {
			return nil, err
		}
		if err := s.write(name, code); err != nil {
			return nil, err
		}
	}
	s.ready[id] = code
	return code, nil
}

func (s *Store) fileOf(id string) string {
	sum := sha256.Sum256(append(slices.Clone(s.key), id...))
	return hex.EncodeToString(sum[:])
}

func (s *Store) compile(id string) ([]byte, error) {
	text, err := s.maker.Code(id)
	if err != nil {
		return nil, err
	}
	vm, err := quickjs.NewVM()
	if err != nil {
		return nil, err
	}
	defer func() { _ = vm.Close() }()
	code, err := vm.Compile(text, quickjs.EvalGlobal)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", id, err)
	}
	return code, nil
}

// read returns what a file has if it is whole.
func (s *Store) read(name string) ([]byte, bool) {
	data, err := s.root.ReadFile(name)
	if err != nil || len(data) < sha256.Size {
		return nil, false
	}
	sum := s.sum(name, data[sha256.Size:])
	return data[sha256.Size:], subtle.ConstantTimeCompare(sum, data[:sha256.Size]) == 1
}

// sum is for a file of that name: one that was put in the place of another is none.
func (s *Store) sum(name string, code []byte) []byte {
	h := sha256.New()
	h.Write([]byte(name))
	h.Write(code)
	return h.Sum(nil)
}

func (s *Store) write(name string, code []byte) error {
	if err := s.makeRoom(int64(len(code))); err != nil {
		return fmt.Errorf("chunks: %w", err)
	}
	partial := fmt.Sprintf("%s.%d.%d", name, os.Getpid(), time.Now().UnixNano())
	err := s.root.WriteFile(partial, append(s.sum(name, code), code...), 0o600)
	if err == nil {
		err = s.root.Rename(partial, name)
	}
	if err != nil {
		_ = s.root.Remove(partial)
		return fmt.Errorf("chunks: %w", err)
	}
	return nil
}

// makeRoom removes the oldest files until so many bytes fit in.
func (s *Store) makeRoom(need int64) error {
	entries, err := fs.ReadDir(s.root.FS(), ".")
	if err != nil {
		return err
	}
	var files []fs.FileInfo
	total := need
	for _, entry := range entries {
		info, err := entry.Info()
		if err != nil || !info.Mode().IsRegular() {
			continue
		}
		files = append(files, info)
		total += info.Size()
	}
	slices.SortFunc(files, func(a, b fs.FileInfo) int { return a.ModTime().Compare(b.ModTime()) })
	for _, oldest := range files {
		if total <= s.most {
			return nil
		}
		if err := s.root.Remove(filepath.Base(oldest.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		total -= oldest.Size()
	}
	return nil
}

// makersVersion is to be another one when Maker makes chunks of another kind.
const makersVersion = "1"

// standInsVersion changes with every file that stands in for a builtin.
func standInsVersion() string {
	h := sha256.New()
	_ = fs.WalkDir(ours, ".", func(path string, entry fs.DirEntry, err error) error { // what is embedded can be read
		if err == nil && !entry.IsDir() {
			data, _ := ours.ReadFile(path)
			_, _ = fmt.Fprintf(h, "%s %d\n%s", path, len(data), data)
		}
		return nil
	})
	return hex.EncodeToString(h.Sum(nil))
}

// engineVersion is that of QuickJS, whose bytecode no other version may read, and of what bundles.
func engineVersion() string {
	version := quickjs.Version()
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, module := range info.Deps {
			switch module.Path {
			case "modernc.org/quickjs", "modernc.org/libquickjs", "github.com/evanw/esbuild":
				version += " " + module.Path + "@" + module.Version
			}
		}
	}
	return version
}
