package adaptors

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"context"
	_ "embed" // the scripts
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/phxworker/phxworker/runner/npm"
)

//go:embed scripts/load.cjs
var loadScript string

const (
	// bundleVersion is that of esbuild, and a number for how it is used: what makes other bundles has another.
	bundleVersion = "0.28.2-3"
	bundleFile    = "bundle.js"
	loadFile      = "load.cjs"
	// besideFolder has of the packages in a bundle those that Node is to find.
	besideFolder = "beside"
	// originalFolder has what was published for as long as its bundle is compared with it.
	originalFolder = "original"
)

// writeBundle makes a bundle of modules, of which the first is the package, and in dir a package that
// consists of it for each. The error is [unbundleable] if it would not do what was published.
func (r *Repo) writeBundle(ctx context.Context, modules []Package, files *npm.Files, dir string) (known prepared, err error) {
	home := npmFolder(dir, modules[0].Name)
	toRoot, err := filepath.Rel(home, filepath.Join(dir, besideFolder))
	if err != nil {
		return known, err
	}
	b := &bundler{tree: files, toRoot: filepath.ToSlash(toRoot), entries: entries(modules), trusted: modules[0].Name == runtimeName}
	code, err := b.bundle(ctx)
	if err != nil {
		return known, err
	}
	load := filepath.Join(home, loadFile)
	if err := writeFile(load, []byte(loadScript)); err != nil {
		return known, err
	}
	if err := writeFile(filepath.Join(home, bundleFile), []byte(code)); err != nil {
		return known, err
	}
	beside, err := filesOf(files, b.folders()...)
	if err != nil {
		return known, err
	}
	if err := writeFiles(files, beside, filepath.Join(dir, besideFolder)); err != nil {
		return known, err
	}
	seen, cache, err := r.inspect(ctx, b, modules, files, beside, inspection{Entries: []string{}, Load: load, Cache: len(r.flags) > 0, folder: dir, flags: r.flags})
	if err != nil {
		return known, err
	}
	for i, p := range modules {
		if problem := seen[i].problem(); problem != "" {
			return known, unbundleable(problem)
		}
		if err := writeStub(npmFolder(dir, p.Name), p, load, i, seen[i].Exports); err != nil {
			return known, err
		}
	}
	return prepared{Exports: seen[0].Exports, Bundled: true}, storeCache(cache, home)
}

// inspect tells what the modules of a bundle export, and makes its code cache. The names of ES modules are in their text, where esbuild
// has found them: it is enough that their bundle loads, and has something under each. What CommonJS exports, Node alone knows, which looks for
// names in the text by rules of its own: so the modules are loaded as they were published, and compared.
func (r *Repo) inspect(ctx context.Context, b *bundler, modules []Package, files *npm.Files, beside map[string]bool, alone inspection) (seen []exported, cache []byte, err error) {
	if b.namesKnown {
		seen, cache, err := alone.run(ctx)
		if bad := func(e exported) bool { return e.problem() != "" }; err == nil && len(seen) == len(modules) && !slices.ContainsFunc(seen, bad) {
			return seen, cache, nil
		}
	}
	original := filepath.Join(alone.folder, originalFolder)
	defer os.RemoveAll(original)
	if err := writeFiles(files, b.loadedWith(beside), original); err != nil {
		return nil, nil, err
	}
	alone.Entries = entries(entriesIn(original, modules))
	return alone.run(ctx)
}

// loadedWith are the files that are in the bundle, with those by which Node finds them, and others.
func (b *bundler) loadedWith(others map[string]bool) map[string]bool {
	all := make(map[string]bool)
	for name := range others {
		all[name] = true
	}
	for name := range b.files {
		all[name] = true
		for dir := path.Dir(name); dir != "." && path.Base(dir) != "node_modules"; dir = path.Dir(dir) {
			if _, err := fs.Stat(b.tree, dir+"/package.json"); err == nil {
				all[dir+"/package.json"] = true
			}
		}
	}
	return all
}

// filesOf are those in the folders of packages, without other packages below them.
func filesOf(files *npm.Files, folders ...string) (map[string]bool, error) {
	packages := make(map[string]bool)
	for _, p := range files.Tree.Packages {
		packages[p.Path] = true
	}
	all := make(map[string]bool)
	for _, folder := range folders {
		err := fs.WalkDir(files, folder, func(name string, e fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case name != folder && packages[name]:
				return fs.SkipDir
			case !e.IsDir():
				all[name] = true
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// writeFiles writes some of the files below a folder.
func writeFiles(files fs.FS, names map[string]bool, folder string) error {
	for name := range names {
		data, err := fs.ReadFile(files, name)
		if err != nil {
			return err
		}
		if err := writeFile(filepath.Join(folder, filepath.FromSlash(name)), data); err != nil {
			return err
		}
	}
	return nil
}

// packFolder makes one file of those in a folder, and unpackFolder writes them into another.
func packFolder(dir string) ([]byte, error) {
	var packed bytes.Buffer
	to := zip.NewWriter(&packed)
	to.RegisterCompressor(zip.Deflate, func(w io.Writer) (io.WriteCloser, error) { return flate.NewWriter(w, flate.NoCompression) })
	err := errors.Join(to.AddFS(os.DirFS(dir)), to.Close())
	return packed.Bytes(), err
}

func unpackFolder(packed []byte, dir string) error {
	files, err := zip.NewReader(bytes.NewReader(packed), int64(len(packed)))
	if err != nil {
		return err
	}
	names := make(map[string]bool)
	for _, f := range files.File {
		if !strings.HasSuffix(f.Name, "/") {
			names[f.Name] = true
		}
	}
	return writeFiles(files, names, dir)
}

// writeAsPublished writes a package as it was published, with all that it needs.
func (r *Repo) writeAsPublished(ctx context.Context, p Package, files *npm.Files, dir, reason string) (prepared, error) {
	var folders []string
	for _, one := range files.Tree.Packages {
		folders = append(folders, one.Path)
	}
	all, err := filesOf(files, folders...)
	if err == nil {
		err = writeFiles(files, all, dir)
	}
	if err != nil {
		return prepared{}, err
	}
	p, err = withExports(ctx, entriesIn(dir, []Package{p})[0], dir)
	return prepared{Exports: p.Exports, Problem: p.Problem, Reason: strings.TrimPrefix(reason, filepath.Join(dir, originalFolder)+"/")}, err
}

func entries(modules []Package) []string {
	var paths []string
	for _, p := range modules {
		paths = append(paths, p.Entry)
	}
	return paths
}

// entriesIn are modules of the tree as they lie in a folder.
func entriesIn(folder string, modules []Package) []Package {
	var there []Package
	for _, p := range modules {
		p.Dir, p.Entry = filepath.Join(folder, p.Dir), filepath.Join(folder, p.Entry)
		there = append(there, p)
	}
	return there
}
