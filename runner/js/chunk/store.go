package chunk

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/singleflight"
)

// Store has the bytecode of the chunks of a tree. It may be used concurrently.
type Store struct {
	cache    *Cache
	standIns *Store // nil if this one has Node's as well
	key      []byte
	open     func() (m *Maker, done func(), err error)

	flights singleflight.Group // of chunks that are made, by id
	mu      sync.Mutex
	ready   map[string][]byte // bytecode by the id of its chunk
}

// Store returns a Store. integrity is what the versions and contents of the tree are known by, such as the hashes of a
// lockfile; another one never finds the same chunks. open is called for what the folder does not have, and done once it
// is made. Node's builtins are those of standIns, or, if that is nil, of the tree.
func (c *Cache) Store(integrity string, standIns *Store, open func() (m *Maker, done func(), err error)) *Store {
	sum := sha256.Sum256([]byte(integrity + "\x00" + Version()))
	return &Store{cache: c, standIns: standIns, key: sum[:], open: open, ready: make(map[string][]byte)}
}

// of returns the Store that has a chunk.
func (s *Store) of(id string) *Store {
	if s.standIns != nil && IsStandIn(id) {
		return s.standIns
	}
	return s
}

// Bytecode returns the bytecode of a chunk, made now if need be.
func (s *Store) Bytecode(id string) ([]byte, error) {
	if of := s.of(id); of != s {
		return of.Bytecode(id)
	}
	if code := s.known(id); code != nil {
		return code, nil
	}
	made, err, _ := s.flights.Do(id, func() (any, error) {
		if code, ok := s.cache.read(s.fileOf(id)); ok {
			s.keep(id, code)
			return code, nil
		}
		maker, done, err := s.open()
		if err != nil {
			return nil, err
		}
		defer done()
		_, code, err := s.make(maker, id)
		return code, err
	})
	code, _ := made.([]byte)
	return code, err
}

// Has reports whether the bytecode of a chunk is there.
func (s *Store) Has(id string) bool {
	of := s.of(id)
	return of.known(id) != nil || of.cache.has(of.fileOf(id))
}

// Put keeps the bytecode of a chunk, which Bytecode has returned of a store of the same tree.
func (s *Store) Put(id string, code []byte) {
	of := s.of(id)
	of.cache.write(of.fileOf(id), code)
	of.keep(id, code)
}

// Make makes a chunk of the tree of maker, whether it is there or not, and returns what it is.
func (s *Store) Make(maker *Maker, id string) (Chunk, error) {
	made, _, err := s.of(id).make(maker, id)
	return made, err
}

func (s *Store) make(maker *Maker, id string) (Chunk, []byte, error) {
	made, err := maker.Chunk(id)
	if err != nil {
		return made, nil, err
	}
	code, err := s.cache.compile(made.Text)
	if err != nil {
		return made, nil, fmt.Errorf("%s: %w", id, err)
	}
	s.cache.write(s.fileOf(id), code)
	s.keep(id, code)
	return made, code, nil
}

func (s *Store) known(id string) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ready[id]
}

func (s *Store) keep(id string, code []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
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
const makersVersion = "2"

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
