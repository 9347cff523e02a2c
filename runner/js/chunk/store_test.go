package chunk

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"modernc.org/quickjs"
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
	code, err := maker.Code("node:events")
	require.NoError(t, err)
	require.Contains(t, strings.TrimSpace(code), `require("standins/node_modules/events/events.js")`)
}

// Guards against bytecode of others: a file that was changed, or put in the place of another, is made anew.
func TestAChunkThatWasChangedIsMadeAnew(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "chunks")
	open := func(integrity string) *Store {
		store, err := NewStore(dir, New(tree()), integrity, 1<<20)
		require.NoError(t, err)
		t.Cleanup(func() { _ = store.Close() })
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

	vm, err := quickjs.NewVM()
	require.NoError(t, err)
	defer func() { require.NoError(t, vm.Close()) }()
	value, err := vm.EvalBytecodeValue(again)
	require.NoError(t, err)
	value.Free()

	require.NoError(t, os.Chmod(dir, 0o755)) //nolint:gosec // what is to be refused
	_, err = NewStore(dir, New(tree()), "1", 1<<20)
	require.ErrorContains(t, err, "may be read or written by others")
}

func TestTheFolderOfChunksIsBounded(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "chunks")
	store, err := NewStore(dir, New(tree()), "1", 1000)
	require.NoError(t, err)
	defer func() { require.NoError(t, store.Close()) }()
	for _, id := range []string{"node_modules/b/cjs/part.cjs", "node_modules/a/lib/index.js", "node:os", "node:process"} {
		_, err := store.Bytecode(id)
		require.NoError(t, err)
	}
	files, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, files, 1, "the last is larger than the bound by itself")
}
