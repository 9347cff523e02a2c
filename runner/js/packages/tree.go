package packages

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"sync"
	"syscall"

	"github.com/phxworker/phxworker/runner/js"
	"github.com/phxworker/phxworker/runner/js/chunk"
	"github.com/phxworker/phxworker/runner/npm"
	"github.com/phxworker/phxworker/runner/npm/resolve"
	"github.com/phxworker/phxworker/runner/openfn/adaptors"
)

// tree is the files of an adaptor and of all that it needs.
type tree struct {
	files     *noted
	integrity string // of all of it
	folder    string // of the adaptor, as it is required
	close     func()
	fetched   *npm.Files // nil where OpenFn's worker has installed it
}

// open returns the tree of an adaptor: what OpenFn's worker has installed, or the registry's.
func (p *Provider) open(ctx context.Context, name, version string) (tree, error) {
	if name == js.Builtins {
		return p.openBuiltins(ctx)
	}
	if t, ok := p.ofWorker(name, version); ok {
		return t, nil
	}
	files, done, err := p.cfg.Repo.Files(ctx, name, version)
	if err != nil {
		return tree{}, err
	}
	return tree{&noted{files: files}, files.Tree.Sum(), name, done, files}, nil
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
	return tree{&noted{files: root.FS()}, hex.EncodeToString(sum[:]), folder, func() { _ = root.Close() }, nil}, true
}

// openBuiltins returns the files of what stands in for Node's builtins.
func (p *Provider) openBuiltins(ctx context.Context) (tree, error) {
	var packages []npm.Package
	for _, one := range chunk.Lock() {
		packages = append(packages, npm.Package{Path: one.Path, Name: one.Name, Version: one.Version, Integrity: one.Integrity})
	}
	files, err := p.cfg.Repo.Locked(ctx, packages)
	return tree{&noted{files: files}, "", "", func() {}, files}, err
}

// noted is files that remember why the first of them could not be read, when that is no answer: who looks for a module takes it for
// a file that is not there.
type noted struct {
	files fs.FS

	mu  sync.Mutex
	err error
}

// Open implements [fs.FS].
func (n *noted) Open(name string) (fs.File, error) {
	file, err := n.files.Open(name)
	if err != nil && !isAnswer(err) {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.err = cmp.Or(n.err, err)
	}
	return file, err
}

func (n *noted) failed() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.err
}

// isAnswer reports whether an error says something of a path, and nothing of the machine.
func isAnswer(err error) bool {
	if isOfPackages(err) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return false
	}
	errno, ofSystem := errors.AsType[syscall.Errno](err)
	return !ofSystem || slices.Contains([]syscall.Errno{syscall.ENOENT, syscall.ENOTDIR, syscall.ELOOP, syscall.ENAMETOOLONG, syscall.EINVAL}, errno)
}

// isOfPackages reports whether an error is of fetching packages.
func isOfPackages(err error) bool {
	_, ofRegistry := errors.AsType[*npm.Error](err)
	_, ofCache := errors.AsType[*npm.CacheError](err)
	_, ofInstall := errors.AsType[*adaptors.InstallError](err)
	return ofRegistry || ofCache || ofInstall
}

// nothing is a tree without files.
type nothing struct{}

func (nothing) Open(name string) (fs.File, error) {
	return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
}

// manifestOf returns what the package in a folder of a tree says of itself; nothing where it cannot be read.
func manifestOf(files fs.FS, folder string) *resolve.Manifest {
	if text, err := fs.ReadFile(files, path.Join(folder, "package.json")); err == nil {
		if m, err := resolve.ParseManifest(text); err == nil {
			return m
		}
	}
	return new(resolve.Manifest)
}
