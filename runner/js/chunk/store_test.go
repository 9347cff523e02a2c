package chunk

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/runner/js/vm"
)

func tree() fstest.MapFS {
	return fstest.MapFS{
		"node_modules/a/package.json":     {Data: []byte(`{"main":"lib"}`)},
		"node_modules/a/lib/index.js":     {Data: []byte(`const b = require('b/part'); exports.sum = b.one + require('./two.json').two;`)},
		"node_modules/a/lib/two.json":     {Data: []byte(`{"two":2}`)},
		"node_modules/b/package.json":     {Data: []byte(`{"exports":{"./*":{"import":"./esm/*.mjs","require":"./cjs/*.cjs"}}}`)},
		"node_modules/b/cjs/part.cjs":     {Data: []byte(`exports.one = 1;`)},
		"node_modules/b/esm/part.mjs":     {Data: []byte(`export const one = 100;`)},
		"node_modules/a/node_modules/c/c": {Data: []byte(``)},
	}
}

// A package is one chunk, which names the chunks of others by their paths.
func TestAPackageIsAChunk(t *testing.T) {
	maker := New(tree())
	entry, err := maker.Entry("a")
	require.NoError(t, err)
	require.Equal(t, "node_modules/a/lib/index.js", entry)
	code, err := maker.Code(entry)
	require.NoError(t, err)
	require.Contains(t, code, `require("node_modules/b/cjs/part.cjs")`)
	require.Contains(t, code, "two: 2")
	require.NotContains(t, code, "one = 1")
	_, err = maker.Entry("nowhere")
	require.EqualError(t, err, `cannot find module "nowhere" from .`)
}

// Guards against packages that say that they have no main module, and against an adaptor's own version of what stands in.
func TestPackagesAreFound(t *testing.T) {
	maker := New(fstest.MapFS{
		"node_modules/none/package.json":   {Data: []byte(`{"main":false,"exports":{"./one":"./one.js"}}`)},
		"node_modules/none/one.js":         {},
		"node_modules/events/package.json": {Data: []byte(`{}`)},
		"node_modules/events/index.js":     {Data: []byte(`exports.of = 'the adaptor';`)},
	}, fstest.MapFS{
		"node_modules/events/package.json": {Data: []byte(`{"main":"events.js"}`)},
		"node_modules/events/events.js":    {Data: []byte(`exports.of = 'Node';`)},
	})
	found, err := maker.Entry("none/one")
	require.NoError(t, err)
	require.Equal(t, "node_modules/none/one.js", found)
	code, err := maker.Chunk("node:events")
	require.NoError(t, err)
	require.Contains(t, strings.TrimSpace(code.Text), `require("standins/node_modules/events/events.js")`)
}

// compile makes bytecode as the engine does, but for what it leaves out.
func compile(text string) ([]byte, error) {
	compiler, err := vm.New()
	if err != nil {
		return nil, err
	}
	defer compiler.Close()
	return compiler.Compile(text)
}

// storeIn returns the store of a tree in a folder, and its cache.
func storeIn(t *testing.T, dir, integrity string, most int64) (chunks, *Cache) {
	t.Helper()
	cache, err := OpenCache(dir, most, compile)
	require.NoError(t, err)
	t.Cleanup(func() { _ = cache.Close() })
	return chunks{cache.Store(integrity, nil), New(tree())}, cache
}

// Guards against bytecode of others: a file that was changed, or put in the place of another, is made anew.
func TestAChunkThatWasChangedIsMadeAnew(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "chunks")
	open := func(integrity string) chunks {
		store, _ := storeIn(t, dir, integrity, 1<<20)
		return store
	}
	const id = "node_modules/b/cjs/part.cjs"
	first, err := open("1").Bytecode(id)
	require.NoError(t, err)
	files, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, files, 1)
	file := filepath.Join(dir, files[0].Name())
	whole, err := os.ReadFile(file)
	require.NoError(t, err)
	whole[len(whole)-1] ^= 1
	require.NoError(t, os.WriteFile(file, whole, 0o600))
	again, err := open("1").Bytecode(id)
	require.NoError(t, err)
	require.Equal(t, first, again)

	_, err = open("2").Bytecode(id)
	require.NoError(t, err)
	files, err = os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, files, 2, "what has another integrity is another chunk")

	reader, err := vm.New()
	require.NoError(t, err)
	defer reader.Close()
	_, err = reader.Load(again)
	require.NoError(t, err)

	require.NoError(t, os.Chmod(dir, 0o755))
	_, err = OpenCache(dir, 1<<20, compile)
	require.ErrorContains(t, err, "may be read or written by others")
}

// Guards against a folder that grows for ever, and against one that loses what is used all the time.
func TestTheFolderOfChunksIsBounded(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "chunks")
	store, cache := storeIn(t, dir, "1", 10_000)
	ids := []string{"node_modules/b/cjs/part.cjs", "node_modules/a/lib/index.js", "node:os", "node:undici"}
	for i, id := range ids {
		_, err := store.Bytecode(id)
		require.NoError(t, err)
		at := time.Now().Add(time.Duration(i-len(ids)) * 3 * touchAfter)
		require.NoError(t, os.Chtimes(filepath.Join(dir, store.fileOf(id)), at, at))
	}
	again, _ := storeIn(t, dir, "1", 10_000)
	_, err := again.Bytecode(ids[0])
	require.NoError(t, err)
	require.NoError(t, cache.Lessen())
	last, _ := storeIn(t, dir, "1", 0)
	require.True(t, last.Load(ids[:1]), "it was used just now")
	require.False(t, last.Load(ids), "the others were not used for longest")
	for _, id := range ids {
		code, err := store.Store.Bytecode(id)
		require.NoError(t, err, "who has loaded a chunk keeps it")
		require.NotEmpty(t, code)
	}
}

// Guards against a lock of other versions than those that are listed. Write it with npm: a package.json with the stand-ins
// as dependencies, npm install --package-lock-only, and of each package in its lock path, name, version and integrity.
func TestTheLockIsOfTheStandIns(t *testing.T) {
	known := make(map[string]Locked)
	for _, one := range Lock() {
		known[one.Path] = one
	}
	require.NotEmpty(t, known)
	for _, one := range StandIns {
		want := Locked{"node_modules/" + one.Name, one.Name, one.Version, one.Integrity}
		require.Equal(t, want, known[want.Path])
	}
}

// Guards against a chunk that is made while a run waits: what packages find as globals is prepared with them.
func TestTheGlobalsOfAChunkAreRequired(t *testing.T) {
	known := builtinsOfGlobals()
	for name, id := range known {
		require.Contains(t, hostGlobals, name)
		require.Contains(t, builtins, strings.Split(strings.TrimPrefix(id, nodePrefix), "/")[0])
	}
	require.Subset(t, Builtins(), slices.Collect(maps.Values(known)))
	require.Subset(t, Builtins(), append([]string{"node:stream/web", "node:perf_hooks", "node:assert/strict", "node:string_decoder", "node:_http_names"}, Stub...))
	require.NotContains(t, Builtins(), "node:fs")
	for id := range strings.SplitSeq(Loader, "require('node:") {
		if name, _, ok := strings.Cut(id, "'"); ok && !strings.HasPrefix(id, "//") {
			require.Contains(t, slices.Collect(maps.Values(known)), nodePrefix+name)
		}
	}
	for _, name := range hostGlobals {
		if !slices.Contains(strings.Fields("console Function performance queueMicrotask setImmediate clearImmediate"), name) {
			require.Contains(t, known, name)
		}
	}
	maker := New(fstest.MapFS{"node_modules/a/index.js": {Data: []byte(`exports.x = () => atob('') + fetch;`)}, "node_modules/b/index.js": {Data: []byte(`exports.x = name => global[name];`)}})
	one, err := maker.Chunk("node_modules/a/index.js")
	require.NoError(t, err)
	require.Equal(t, []string{"node:_fetch", "node:_web"}, one.Requires)
	all, err := maker.Chunk("node_modules/b/index.js")
	require.NoError(t, err)
	require.Subset(t, all.Requires, slices.Collect(maps.Values(known)))
}
