package chunk

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"
)

// Store has the bytecode of the chunks of a tree, in memory: what it has stays there as long as the Store does, whatever becomes of
// the folder. It may be used concurrently.
type Store struct {
	cache    *Cache
	standIns *Store // nil if this one has Node's as well
	key      []byte

	mu    sync.Mutex
	ready map[string][]byte // bytecode by the id of its chunk
	bytes int64             // of all of them
}

// Store returns a Store, which is empty: see [Store.Load] and [Store.Make]. integrity is what the versions and contents of the
// tree are known by, such as the hashes of a lockfile; another one never finds the same chunks. Node's builtins are those of
// standIns, or, if that is nil, of the tree.
func (c *Cache) Store(integrity string, standIns *Store) *Store {
	sum := sha256.Sum256([]byte(integrity + "\x00" + Version()))
	return &Store{cache: c, standIns: standIns, key: sum[:], ready: make(map[string][]byte)}
}

// of returns the Store that has a chunk.
func (s *Store) of(id string) *Store {
	if s.standIns != nil && IsStandIn(id) {
		return s.standIns
	}
	return s
}

// Bytecode returns the bytecode of a chunk that was loaded or made.
func (s *Store) Bytecode(id string) ([]byte, error) {
	of := s.of(id)
	if Lacking(id) != "" {
		id = stub
	}
	of.mu.Lock()
	defer of.mu.Unlock()
	code, ok := of.ready[id]
	if !ok {
		return nil, fmt.Errorf("there is no chunk %s", id)
	}
	return code, nil
}

// Bytes is how much memory the chunks take, without those of Node's builtins that others have as well.
func (s *Store) Bytes() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bytes
}

// Load reads chunks from the folder, and reports whether all of them are there, and whole.
func (s *Store) Load(ids []string) bool {
	whole := true
	for _, id := range ids {
		of := s.of(id)
		if _, err := of.Bytecode(id); err == nil {
			continue
		}
		code, ok := of.cache.read(of.fileOf(id))
		if ok {
			of.keep(id, code)
		}
		whole = whole && ok
	}
	return whole
}

// Put keeps the bytecode of a chunk, which Bytecode has returned of a store of the same tree.
func (s *Store) Put(id string, code []byte) {
	of := s.of(id)
	of.cache.write(of.fileOf(id), code)
	of.keep(id, code)
}

// Make makes a chunk of the tree of maker, whether it is there or not, and returns what it is.
func (s *Store) Make(maker *Maker, id string) (Chunk, error) {
	made, err := maker.Chunk(id)
	if err != nil {
		return made, err
	}
	of := s.of(id)
	code, err := of.cache.compile(made.Text)
	if err != nil {
		return made, fmt.Errorf("%s: %w", id, err)
	}
	of.cache.write(of.fileOf(id), code)
	of.keep(id, code)
	return made, nil
}

func (s *Store) keep(id string, code []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bytes += int64(len(code) - len(s.ready[id]))
	s.ready[id] = code
}

func (s *Store) fileOf(id string) string {
	sum := sha256.Sum256(append(slices.Clone(s.key), id...))
	return hex.EncodeToString(sum[:])
}

// Version changes with all that chunks depend on besides their packages: how they are made, what stands in for Node's
// builtins, and QuickJS, whose bytecode no other version may read.
var Version = sync.OnceValue(func() string {
	return strings.Join([]string{makersVersion, standInsVersion(), engineVersion()}, " ")
})

// makersVersion is to be another one when Maker makes chunks of another kind.
const makersVersion = "4"

// standInsVersion changes with every file that stands in for a builtin.
func standInsVersion() string {
	h := sha256.New()
	_, _ = fmt.Fprintf(h, "%d\n%s", len(locked), locked)
	_ = fs.WalkDir(ours, ".", func(path string, entry fs.DirEntry, err error) error { // what is embedded can be read
		if err == nil && !entry.IsDir() {
			data, _ := ours.ReadFile(path)
			_, _ = fmt.Fprintf(h, "%s %d\n%s", path, len(data), data)
		}
		return nil
	})
	return hex.EncodeToString(h.Sum(nil))
}
