package adaptors

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// An install takes no longer than this.
const installTimeout = 10 * time.Minute

// folder is where a package is installed.
func (r *Repo) folder(s specifier) string {
	return filepath.Join(r.dir, filepath.FromSlash(s.String()))
}

// npmFolder is where a package lies that is installed in a folder.
func npmFolder(dir, name string) string {
	return filepath.Join(dir, "node_modules", filepath.FromSlash(name))
}

// install installs a package and prepares it, as far as that is not done, or all of it
// again. What is damaged is installed again.
func (r *Repo) install(ctx context.Context, s specifier, again bool, tell func(string)) (Package, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, installTimeout, givenUp(s))
	defer cancel()
	unlock, err := r.lock(ctx, s, tell)
	if err != nil {
		return Package{}, err
	}
	defer unlock()
	p, err := r.ready(s)
	if err == nil && !again { // since another process was first
		return p, nil
	}
	there := exists(r.preparedFolder(s))
	if there && !again {
		r.log.Warn("package is damaged; it is installed again", "package", s.String(), "error", err)
		tell("The files of " + s.String() + " are damaged: it is installed again")
	}
	if !there && !again {
		p, err := r.ofWorker(ctx, s)
		if err == nil {
			return p, nil
		}
		if !errors.Is(err, errNotOfWorker) {
			r.log.Warn("package of OpenFn's worker cannot be used; it is installed", "package", s.String(), "error", err)
		}
	}
	p, err = r.fetchAndPrepare(ctx, s, again, tell)
	if install, ok := errors.AsType[*InstallError](err); ok && install.Unable {
		if other, none := r.ofOtherVersion(s); none == nil {
			r.log.Warn("using the package as another version of this worker has prepared it", "package", s.String(), "error", err)
			tell(s.String() + " cannot be installed now; using what another version of the worker has prepared")
			r.ofOthers.put(s.String(), other)
			return other, nil
		}
	}
	return p, err
}

// givenUp is why an install ends that takes too long.
func givenUp(s specifier) error {
	return &InstallError{Specifier: s.String(), Reason: fmt.Sprintf("the install was given up after %v", installTimeout), Unable: true}
}

func (r *Repo) fetchAndPrepare(ctx context.Context, s specifier, again bool, tell func(string)) (Package, error) {
	began := time.Now()
	tell("Installing " + s.String())
	r.log.Info("installing package", "package", s.String())
	good := func() bool { _, err := r.ready(s); return err == nil && !again }
	err := place(r.preparedFolder(s), good, func(dir string) error { return r.fetch(ctx, s, dir) })
	var p Package
	if err == nil {
		p, err = r.ready(s)
	}
	if ctx.Err() != nil {
		return Package{}, context.Cause(ctx)
	}
	if err != nil {
		r.log.Warn("package was not installed", "package", s.String(), "error", err)
		return Package{}, r.notFetched(s, err)
	}
	r.renewed.Store(s, true)
	if caches, _ := filepath.Glob(filepath.Join(globEscape(p.Dir), "bundle-*.cache")); len(caches) > 0 {
		r.cached.Store(p.Dir, true)
	}
	took := time.Since(began).Round(100 * time.Millisecond)
	r.log.Info("package is installed", "package", s.String(), "bundled", p.Bundled, "took", took)
	tell(fmt.Sprintf("Installed %s in %v", s, took))
	return p, nil
}

// fetch fetches a package with all that it needs, and fills dir with what is made of it.
func (r *Repo) fetch(ctx context.Context, s specifier, dir string) error {
	return r.inTurn(ctx, func() error {
		files, done, err := r.Files(ctx, s.name, s.version)
		if err != nil {
			return err
		}
		defer done()
		return r.prepare(ctx, s, files, dir)
	})
}

// takesNoWrites reports whether an error says that a folder takes no writes, which may be meant so.
func takesNoWrites(err error) bool {
	return errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS)
}

// unusable says why nothing can be installed in the folder.
func (r *Repo) unusable(err error) error {
	if errors.Is(err, syscall.ENOSPC) {
		return errors.New("no space left in " + r.dir)
	}
	return fmt.Errorf("the folder for adaptors cannot be used: %w", err)
}

// Mend installs a package of the repo again if files of it are missing or cut short. It reports whether it did.
func (r *Repo) Mend(ctx context.Context, p Package, progress func(string)) (mended bool, err error) {
	s := specifier{p.Name, p.Version}
	if !strings.HasPrefix(p.Dir, r.folder(s)) { // of the monorepo
		return false, nil
	}
	r.sound.Delete(s) // so that all of it is looked at
	if _, err := r.ready(s); err == nil {
		return false, nil
	}
	_, err = r.installs.Do(ctx, "mend "+s.String(), progress, func(ctx context.Context, tell func(string)) (Package, error) {
		return r.install(ctx, s, true, tell)
	})
	return err == nil, err
}
