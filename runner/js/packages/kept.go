package packages

import (
	"bytes"
	"encoding/gob"

	"github.com/phxworker/phxworker/runner/js/chunk"
)

// kept is what was found out about a package with its chunks, in the cache that all folders of adaptors share.
type kept struct {
	Record record
	Code   map[string][]byte // by the id of a chunk
}

func keyOf(name, version string) string { return name + "@" + version + " " + judgesVersion() }

// recall returns what was made of the same packages before, whoever did so, and has the chunks in a store.
func (p *Provider) recall(t tree, name, version string, chunks *chunk.Store) (found record, ok bool) {
	if t.fetched == nil || p.cfg.Again {
		return record{}, false
	}
	packed, ok := t.fetched.Made(keyOf(name, version))
	var known kept
	if !ok || gob.NewDecoder(bytes.NewReader(packed)).Decode(&known) != nil {
		return record{}, false
	}
	for id, code := range known.Code {
		chunks.Put(id, code)
	}
	return known.Record, true
}

// keep keeps what recall returns. That a package takes long to load is not kept.
func keep(t tree, found record, chunks *chunk.Store) {
	if t.fetched == nil || found.tooSlow() {
		return
	}
	known := kept{found, make(map[string][]byte)}
	if found.Node == "" {
		for _, id := range found.Chunks {
			code, err := chunks.Bytecode(id)
			if err != nil {
				return
			}
			known.Code[id] = code
		}
	}
	var packed bytes.Buffer
	if gob.NewEncoder(&packed).Encode(known) == nil {
		t.fetched.Keep(keyOf(found.Name, found.Version), packed.Bytes())
	}
}
