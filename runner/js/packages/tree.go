package packages

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"sync"

	"github.com/phxworker/phxworker/runner/js/chunk"
	"github.com/phxworker/phxworker/runner/npm"
)

// tree is the files of an adaptor and of all that it needs.
type tree struct {
	files     fs.FS
	integrity string // of all of it
	folder    string // of the adaptor, as it is required
	close     func()
	fetched   *npm.Files // nil where OpenFn's worker has installed it
}

// open returns the tree of an adaptor: what OpenFn's worker has installed, or the registry's.
func (p *Provider) open(ctx context.Context, name, version string) (tree, error) {
	if t, ok := p.ofWorker(name, version); ok {
		return t, nil
	}
	files, done, err := p.cfg.Repo.Files(ctx, name, version)
	if err != nil {
		return tree{}, err
	}
	return tree{files, files.Tree.Sum(), name, done, files}, nil
}

// lockOfWorker is where npm says which versions lie beside it.
const lockOfWorker = "node_modules/.package-lock.json"

// ofWorker returns an adaptor as OpenFn's own worker has installed it, under an alias.
func (p *Provider) ofWorker(name, version string) (tree, bool) {
	folder := name + "_" + version
	home := p.cfg.Repo.Dir()
	if info, err := os.Stat(filepath.Join(home, "node_modules", filepath.FromSlash(folder), "package.json")); err != nil || !info.Mode().IsRegular() {
		return tree{}, false
	}
	lock, err := os.ReadFile(filepath.Join(home, filepath.FromSlash(lockOfWorker))) //nolint:gosec // below the folder of the repo
	if err != nil {
		return tree{}, false
	}
	root, err := os.OpenRoot(home) // links do not lead out of it
	if err != nil {
		return tree{}, false
	}
	sum := sha256.Sum256(append([]byte(folder+"\x00"), lock...))
	return tree{root.FS(), hex.EncodeToString(sum[:]), folder, func() { _ = root.Close() }, nil}, true
}

// standIns are the files of what stands in for Node's builtins, fetched when the first is wanted.
type standIns struct {
	fetch func() (*npm.Files, error) // once
}

func (p *Provider) openStandIns(ctx context.Context) *standIns {
	return &standIns{sync.OnceValues(func() (*npm.Files, error) {
		var packages []npm.Package
		for _, one := range chunk.Lock() {
			packages = append(packages, npm.Package{Path: one.Path, Name: one.Name, Version: one.Version, Integrity: one.Integrity})
		}
		return p.cfg.Repo.Locked(ctx, packages)
	})}
}

// Open implements [fs.FS].
func (s *standIns) Open(name string) (fs.File, error) {
	files, err := s.fetch()
	if err != nil {
		return nil, err
	}
	return files.Open(name)
}

// chunk makes a chunk with maker. That they could not be had is told, and not what came of that.
func (s *standIns) chunk(maker func() (chunk.Chunk, error)) (chunk.Chunk, error) {
	made, err := maker()
	if err != nil {
		if _, fetched := s.fetch(); fetched != nil {
			err = fetched
		}
	}
	return made, err
}

// nothing is a tree without files.
type nothing struct{}

func (nothing) Open(name string) (fs.File, error) {
	return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
}

// nameOf returns the name and version of the package in a folder of a tree, "" if it does not say.
func nameOf(files fs.FS, folder string) string {
	text, err := fs.ReadFile(files, path.Join(folder, "package.json"))
	if err != nil {
		return ""
	}
	return nameIn(text)
}
