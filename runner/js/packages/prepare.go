package packages

import (
	"bytes"
	"context"
	"encoding/gob"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"github.com/phxworker/phxworker/runner/js"
	"github.com/phxworker/phxworker/runner/js/chunk"
)

// mostLoad is how long all that an adaptor exports may take to load: a fresh Node takes as long.
const mostLoad = 100 * time.Millisecond

// load returns an adaptor that was prepared before, or prepares it.
func (p *Provider) load(ctx context.Context, name, version string) (*js.Package, error) {
	p.openCache()
	if found, ok := p.readRecord(name, version); ok && !p.cfg.Again {
		if one := p.packageOf(found); isWhole(found, one.Chunks) {
			p.remember(one)
			return one, nil
		}
	}
	begin := time.Now()
	p.cfg.Logger.Info("preparing an adaptor for the embedded engine", "package", name+"@"+version)
	found, made, err := p.prepare(ctx, name, version)
	if err != nil {
		p.cfg.Logger.Warn("an adaptor was not prepared", "package", name+"@"+version, "error", err)
		return nil, err
	}
	p.writeRecord(found)
	_ = p.cache.Lessen() // what cannot be removed is in nobody's way
	p.cfg.Logger.Info("an adaptor is prepared", "package", name+"@"+version, "node", found.Node, "took", time.Since(begin).Round(time.Millisecond))
	one := p.packageOf(found)
	if !isWhole(found, one.Chunks) { // a folder that took none of them: a run does not wait for the registry
		one.Chunks = made
	}
	p.remember(one)
	return one, nil
}

// isWhole reports whether all chunks of an adaptor that is for the embedded engine are there.
func isWhole(found record, chunks *chunk.Store) bool {
	return found.Node != "" || !slices.ContainsFunc(found.Chunks, func(id string) bool { return !chunks.Has(id) })
}

// openCache opens the folder when it is first needed. Where it cannot be used, nothing is kept.
func (p *Provider) openCache() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cache != nil {
		return
	}
	err := os.MkdirAll(p.cfg.Dir, 0o700)
	if err == nil {
		p.cache, err = chunk.OpenCache(filepath.Join(p.cfg.Dir, "chunks"), p.cfg.MostBytes, js.Compile)
	}
	if err != nil {
		p.cfg.Logger.Warn("adaptors are prepared anew by each worker: the folder for them cannot be used", "error", err)
		p.cache, _ = chunk.OpenCache("", 0, js.Compile) // cannot fail
	}
	p.nodes = p.cache.Store("", nil, func() (*chunk.Maker, func(), error) {
		nodes := p.openStandIns(p.ctx)
		return chunk.New(nothing{}, nodes), func() {}, nil
	})
}

func (p *Provider) packageOf(found record) *js.Package {
	store := p.cache.Store(found.Integrity, p.nodes, func() (*chunk.Maker, func(), error) {
		t, err := p.open(p.ctx, found.Name, found.Version)
		if err == nil && t.integrity != found.Integrity {
			t.close()
			err = errors.New("other versions of what it needs were published since; the next run takes them")
			p.forget(found)
		}
		if err != nil {
			return nil, nil, err
		}
		return chunk.New(t.files), t.close, nil
	})
	return &js.Package{Name: found.Name, Version: found.Version, Entry: found.Entry, Exports: found.Exports, Chunks: store, Node: found.Node}
}

// forget has an adaptor prepared again.
func (p *Provider) forget(found record) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.known, found.Name+"@"+found.Version)
	_ = os.Remove(p.recordFile(found.Name, found.Version))
}

// prepare makes the chunks of all that an adaptor reaches, which made has in memory, and looks into it.
func (p *Provider) prepare(ctx context.Context, name, version string) (found record, made *chunk.Store, err error) {
	t, err := p.open(ctx, name, version)
	if err != nil {
		return record{}, nil, err
	}
	defer t.close()
	if found, made, ok := p.recall(t, name, version); ok {
		return found, made, nil
	}
	found = record{Name: name, Version: version, Made: judgesVersion(), Integrity: t.integrity}
	maker := chunk.New(t.files)
	if found.Entry, err = maker.Entry(t.folder); err != nil {
		found.Node = "has no main module that is CommonJS"
		return found, nil, nil
	}
	one := p.packageOf(found)
	nodes := p.openStandIns(ctx)
	w := &walk{
		tree: t, maker: maker, store: one.Chunks, nodes: nodes, nodesMaker: chunk.New(nothing{}, nodes),
		turns: semaphore.NewWeighted(int64(runtime.GOMAXPROCS(0))), seen: make(map[string]bool),
	}
	if err := w.all(ctx, found.Entry); err != nil {
		return record{}, nil, err
	}
	found.Chunks = w.ids()
	if found.Node = w.why(); found.Node == "" {
		found, err = inspect(ctx, found, one)
	}
	if err == nil {
		keep(t, found, one.Chunks)
	}
	return found, one.Chunks, err
}

// kept is what was found out about an adaptor with its chunks, in the cache that all folders of adaptors share.
type kept struct {
	Record record
	Code   map[string][]byte // by the id of a chunk
}

func keyOf(name, version string) string { return name + "@" + version + " " + judgesVersion() }

// recall returns what was made of the same packages before, whoever did so.
func (p *Provider) recall(t tree, name, version string) (found record, chunks *chunk.Store, ok bool) {
	if t.fetched == nil || p.cfg.Again {
		return record{}, nil, false
	}
	var known kept
	packed, ok := t.fetched.Made(keyOf(name, version))
	if !ok || gob.NewDecoder(bytes.NewReader(packed)).Decode(&known) != nil {
		return record{}, nil, false
	}
	chunks = p.packageOf(known.Record).Chunks
	for id, code := range known.Code {
		chunks.Put(id, code)
	}
	return known.Record, chunks, true
}

// keep keeps what recall returns. That an adaptor takes long to load is not kept: another time, the machine may be less busy.
func keep(t tree, found record, chunks *chunk.Store) {
	if t.fetched == nil || found.Node != "" && found.LoadMS > mostLoad.Milliseconds() {
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

// inspect loads an adaptor.
func inspect(ctx context.Context, found record, one *js.Package) (record, error) {
	var took time.Duration
	for range 3 { // the machine may be busy
		seen, err := js.Inspect(ctx, one)
		switch {
		case ctx.Err() != nil:
			return record{}, context.Cause(ctx)
		case len(seen.Missing) > 0:
			found.Node = "calls " + seen.Missing[0] + " of Node when it is loaded, which the embedded engine does not have"
			return found, nil
		case err != nil:
			found.Node = "does not load in the embedded engine: " + strings.Join(strings.Fields(err.Error()), " ")
			return found, nil
		}
		if took == 0 || seen.Took < took {
			took = seen.Took
		}
		found.Exports = seen.Exports
		if took <= mostLoad || isVerified(found.Name+"@"+found.Version) {
			break
		}
	}
	found.LoadMS = took.Milliseconds()
	if took > mostLoad && !isVerified(found.Name+"@"+found.Version) {
		found.Node = fmt.Sprintf("takes %d ms to load in the embedded engine, as long as Node", found.LoadMS)
	}
	return found, nil
}

// walk makes chunks, from one to those that it asks for.
type walk struct {
	tree       tree
	maker      *chunk.Maker
	store      *chunk.Store
	nodes      *standIns
	nodesMaker *chunk.Maker
	turns      *semaphore.Weighted

	mu      sync.Mutex
	seen    map[string]bool
	reasons []string // why the adaptor is for Node
}

func (w *walk) all(ctx context.Context, entry string) error {
	all, ctx := errgroup.WithContext(ctx)
	var visit func(id string)
	visit = func(id string) {
		w.mu.Lock()
		seen := w.seen[id]
		w.seen[id] = true
		w.mu.Unlock()
		if seen {
			return
		}
		all.Go(func() error {
			if err := w.turns.Acquire(ctx, 1); err != nil {
				return context.Cause(ctx)
			}
			defer w.turns.Release(1)
			made, err := w.make(id)
			for _, next := range made.Requires {
				visit(next)
			}
			return err
		})
	}
	visit(entry)
	return all.Wait()
}

func (w *walk) make(id string) (chunk.Chunk, error) {
	if chunk.IsStandIn(id) {
		return w.nodes.chunk(func() (chunk.Chunk, error) { return w.store.Make(w.nodesMaker, id) })
	}
	made, err := w.store.Make(w.maker, id)
	if err != nil {
		w.note(id, "cannot be made into code for the embedded engine: "+err.Error())
		return chunk.Chunk{}, nil //nolint:nilerr // that is what was found out
	}
	w.look(id, made)
	return made, nil
}

// ofLanguages are what QuickJS does otherwise than Node, or not at all.
var ofLanguages = regexp.MustCompile(`\b(Intl|localeCompare|toLocale\w*)\b`)

// look notes what a chunk reaches that is not here.
func (w *walk) look(id string, made chunk.Chunk) {
	if made.Native {
		w.note(id, "has native code")
	}
	if isPartOfVerified(nameOf(w.tree.files, chunk.Folder(id))) {
		return
	}
	for _, next := range made.Requires {
		if builtin := chunk.Lacking(next); builtin != "" {
			w.note(id, "reaches "+builtin+" of Node, which the embedded engine does not have")
		}
	}
	if word := ofLanguages.FindString(made.Text); word != "" {
		w.note(id, "says "+word+", which the embedded engine does otherwise")
	}
}

func (w *walk) note(id, why string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if name := nameOf(w.tree.files, chunk.Folder(id)); name != "" {
		why += " (" + name + ")"
	}
	w.reasons = append(w.reasons, why)
}

// why returns the first reason in the order of the alphabet, so that it is the same each time.
func (w *walk) why() string {
	slices.Sort(w.reasons)
	if len(w.reasons) == 0 {
		return ""
	}
	return w.reasons[0]
}

func (w *walk) ids() []string {
	var ids []string
	for id := range w.seen {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// nameIn returns the name and version that a package.json says.
func nameIn(text []byte) string {
	var manifest struct{ Name, Version string }
	if json.Unmarshal(text, &manifest) != nil || manifest.Name == "" {
		return ""
	}
	return manifest.Name + "@" + manifest.Version
}
