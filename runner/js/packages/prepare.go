package packages

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
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

// load returns a package that was prepared before, or prepares it.
func (p *Provider) load(ctx context.Context, name, version string, tell func(string)) (*js.Package, error) {
	p.openCache()
	before, known := p.readRecord(name, version)
	if known = known && !p.cfg.Again; known && !before.outdated() {
		one := packageOf(before, p.cache.Store(before.Integrity, p.nodes))
		whole := before.Node != "" || one.Chunks.Load(before.Chunks)
		if whole && before.Node == "" && before.Builtins {
			if err := p.loadBuiltins(ctx); err != nil {
				return nil, err
			}
		}
		if whole {
			return p.remember(one, nil), nil
		}
	}
	if name != js.Builtins { // which others wait for in their turn
		if err := p.turns.Acquire(ctx, 1); err != nil {
			return nil, err
		}
		defer p.turns.Release(1)
	}
	if p.cfg.Again {
		_ = os.Remove(p.recordFile(name, version, markSuffix)) // what cannot be removed counts
	}
	begin := time.Now()
	specifier := name + "@" + version
	if name == js.Builtins { // the other engine has nothing of the kind
		specifier, tell = "what stands in for Node's builtins", func(string) {}
	}
	tell("Installing " + specifier)
	p.cfg.Logger.Info("preparing a package for the embedded engine", "package", specifier)
	found, one, err := p.prepare(ctx, name, version)
	if err != nil {
		p.cfg.Logger.Warn("a package was not prepared", "package", specifier, "error", err)
		if known && before.Node != "" && ctx.Err() == nil {
			return p.remember(packageOf(before, nil), nil), nil // for Node it is in any case
		}
		return nil, err
	}
	one = p.remember(one, &found)
	_ = p.cache.Lessen() // what cannot be removed is in nobody's way
	p.cfg.Logger.Info("a package is prepared", "package", specifier, "node", one.Node, "took", time.Since(begin).Round(time.Millisecond))
	if one.Node == "" {
		tell(fmt.Sprintf("Installed %s in %v", specifier, time.Since(begin).Round(100*time.Millisecond)))
	}
	return one, nil
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
	p.nodes = p.cache.Store("", nil)
}

// packageOf returns what was found out, with the chunks that it needs.
func packageOf(found record, chunks *chunk.Store) *js.Package {
	one := &js.Package{Name: found.Name, Version: found.Version, Entry: found.Entry, Exports: found.Exports, Node: found.Node}
	if found.Node == "" {
		one.Chunks = chunks
	}
	return one
}

// prepare recalls what was made of a package before, or makes the chunks of all that it reaches, and looks into it. The error is
// none of the package's.
func (p *Provider) prepare(ctx context.Context, name, version string) (found record, one *js.Package, err error) {
	t, err := p.open(ctx, name, version)
	if err != nil {
		return record{}, nil, err
	}
	defer t.close()
	chunks := p.cache.Store(t.integrity, p.nodes)
	found, known := p.recall(t, name, version, chunks)
	if !known {
		found = record{Name: name, Version: version, Made: judgesVersion(), Integrity: t.integrity}
	}
	switch {
	case known && found.Node == "" && found.Builtins:
		err = p.loadBuiltins(ctx)
	case known:
	case name == js.Builtins:
		found, err = makeBuiltins(ctx, found, t, p.nodes)
	default:
		found, err = p.look(ctx, found, t, chunks)
	}
	for _, failed := range []error{t.files.failed(), err} { // of what could not be read, anything may have come
		if isOfPackages(failed) {
			failed = p.cfg.Repo.NotFetched(name, version, failed)
		}
		if failed != nil {
			return record{}, nil, failed
		}
	}
	if !known {
		keep(t, found, chunks)
	}
	return found, packageOf(found, chunks), nil
}

// look makes the chunks of an adaptor, and tells what is found out.
func (p *Provider) look(ctx context.Context, found record, t tree, chunks *chunk.Store) (_ record, err error) {
	maker := chunk.New(t.files)
	if found.Entry, err = maker.Entry(t.folder); err != nil {
		found.Node = "has no main module that is CommonJS"
		return found, nil // that is what was found out
	}
	early, cancel := context.WithCancel(ctx)
	var begun sync.WaitGroup
	defer begun.Wait()
	defer cancel() // nobody waits any more
	// They begin as soon as one is asked for, since their files come over the network. Whoever needs them hears what is wrong.
	w := &walk{files: t.files, maker: maker, store: chunks, wanted: func() { begun.Go(func() { _ = p.loadBuiltins(early) }) }}
	if err := w.all(ctx, append([]string{found.Entry}, chunk.Stub...)); err != nil {
		return record{}, err
	}
	found.Chunks, found.Builtins = w.ids(), w.builtins
	if found.Node = w.why(); found.Node != "" {
		return found, nil
	}
	if found.Builtins {
		if err := p.loadBuiltins(ctx); err != nil {
			return record{}, err
		}
	}
	return inspect(ctx, found, packageOf(found, chunks))
}

// makeBuiltins makes the chunks of all that stands in for Node's builtins.
func makeBuiltins(ctx context.Context, found record, t tree, chunks *chunk.Store) (record, error) {
	w := &walk{files: t.files, maker: chunk.New(nothing{}, t.files), store: chunks}
	err := w.all(ctx, chunk.Builtins())
	found.Chunks = w.ids()
	return found, err
}

// loadBuiltins has what stands in for Node's builtins ready, for packages that ask for some of it: they may make up names.
func (p *Provider) loadBuiltins(ctx context.Context) error {
	_, err := p.find(ctx, js.Builtins, nil)
	return err
}

// inspect loads an adaptor.
func inspect(ctx context.Context, found record, one *js.Package) (record, error) {
	seen, err := js.Inspect(ctx, one)
	for tries := 1; tries < 3 && err == nil && seen.Took > mostLoad; tries++ { // the first is the slowest
		again, failed := js.Inspect(ctx, one)
		if failed == nil && again.Took < seen.Took {
			seen = again
		}
	}
	tooLong := seen.Took > mostLoad && !isVerified(found.Name+"@"+found.Version)
	switch {
	case ctx.Err() != nil:
		return record{}, context.Cause(ctx)
	case errors.Is(err, js.ErrNoVM), errors.Is(err, js.ErrInspection) && !tooLong: // a machine that has no time for it
		return record{}, err
	case len(seen.Missing) > 0:
		found.Node = "calls " + seen.Missing[0] + " of Node when it is loaded, which the embedded engine does not have"
	case tooLong && (err == nil || errors.Is(err, js.ErrInspection)):
		found.Node = fmt.Sprintf("takes %d ms to load in the embedded engine, as long as Node", seen.Took.Milliseconds())
	case err != nil:
		found.Node = "does not load in the embedded engine: " + strings.Join(strings.Fields(err.Error()), " ")
	}
	found.Exports, found.LoadMS, found.Judged = seen.Exports, seen.Took.Milliseconds(), time.Now()
	return found, nil
}

// walk makes chunks, from some to those that they ask for.
type walk struct {
	files fs.FS
	maker *chunk.Maker
	store *chunk.Store
	// wanted is called once, when something of Node's is first asked for.
	wanted func()

	mu       sync.Mutex
	seen     map[string]bool
	builtins bool     // something of Node's is asked for
	reasons  []string // why the adaptor is for Node
}

func (w *walk) all(ctx context.Context, entries []string) error {
	w.seen = make(map[string]bool)
	turns := semaphore.NewWeighted(int64(runtime.GOMAXPROCS(0)))
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
			if err := turns.Acquire(ctx, 1); err != nil {
				return context.Cause(ctx)
			}
			defer turns.Release(1)
			made, err := w.make(id)
			for _, next := range made.Requires {
				visit(next)
			}
			return err
		})
	}
	for _, entry := range entries {
		visit(entry)
	}
	return all.Wait()
}

func (w *walk) make(id string) (chunk.Chunk, error) {
	made, err := w.store.Make(w.maker, id)
	if chunk.IsStandIn(id) || errors.Is(err, js.ErrNoVM) {
		return made, err
	}
	if err != nil {
		w.note(id, "cannot be made into code for the embedded engine: "+err.Error())
		return chunk.Chunk{}, nil //nolint:nilerr // see above
	}
	w.look(id, made)
	made.Requires = slices.DeleteFunc(made.Requires, chunk.IsStandIn)
	return made, nil
}

// otherwise is what QuickJS does otherwise than Node, or not at all.
var otherwise = regexp.MustCompile(`\b(Intl|localeCompare|toLocale\w*|fromAsync)\b|\bRegExp\.(\$\d|lastMatch|leftContext|rightContext)`)

// look notes what a chunk reaches that is not here.
func (w *walk) look(id string, made chunk.Chunk) {
	if made.Native {
		w.note(id, "has native code")
	}
	if slices.ContainsFunc(made.Requires, func(id string) bool { return chunk.IsStandIn(id) && chunk.Lacking(id) == "" }) {
		w.mu.Lock()
		if !w.builtins {
			w.builtins = true
			w.wanted()
		}
		w.mu.Unlock()
	}
	of := manifestOf(w.files, chunk.Folder(id))
	for _, name := range made.Lacks {
		if of.Needs(name) { // others are looked for, and done without
			w.note(id, "lacks "+name+", which it depends on")
		}
	}
	if isPartOfVerified(of.String()) {
		return
	}
	for _, next := range made.Requires {
		if builtin := chunk.Lacking(next); builtin != "" {
			w.note(id, "reaches "+builtin+" of Node, which the embedded engine does not have")
		}
	}
	if slices.Contains(made.Requires, "node:undici") {
		if other := otherUndici(w.files, chunk.Folder(id)); other != "" {
			w.note(id, "brings "+other+", and that of the embedded engine does as version 7")
		}
	}
	if word := otherwise.FindString(made.Text); word != "" {
		w.note(id, "says "+word+", which the embedded engine does otherwise")
	}
}

// otherUndici returns the undici that a folder's package gets if it is not of version 7, whose bodies, redirects and options are others.
func otherUndici(files fs.FS, folder string) string {
	for dir := folder; ; dir = path.Dir(dir) {
		name := manifestOf(files, path.Join(dir, "node_modules/undici")).String()
		if name != "" && !strings.HasPrefix(name, "undici@7.") {
			return name
		}
		if name != "" || dir == "." {
			return ""
		}
	}
}

func (w *walk) note(id, why string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if name := manifestOf(w.files, chunk.Folder(id)).String(); name != "" {
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
