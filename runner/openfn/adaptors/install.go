package adaptors

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"
)

// An install takes no longer than this.
const installTimeout = 10 * time.Minute

// folder is where a package is installed.
func (r *Repo) folder(s specifier) string {
	return filepath.Join(r.dir, filepath.FromSlash(s.String()))
}

// npmFolder is where npm puts a package that is installed in a folder.
func npmFolder(dir, name string) string {
	return filepath.Join(dir, "node_modules", filepath.FromSlash(name))
}

// install installs a package and prepares it, as far as that is not done.
func (r *Repo) install(ctx context.Context, s specifier, tell func(string)) (Package, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, installTimeout, &InstallError{
		Specifier: s.String(), Reason: fmt.Sprintf("the install was given up after %v", installTimeout),
	})
	defer cancel()
	began := time.Now()
	_, err := readPackage(npmFolder(r.folder(s), s.name))
	switch {
	case err == nil:
		return r.prepare(ctx, s)
	case !errors.Is(err, fs.ErrNotExist):
		return Package{}, &InstallError{Specifier: s.String(), Reason: "it is damaged; remove its folder in the folder for adaptors: " + err.Error()}
	}
	tell("Installing " + s.String())
	r.log.Info("installing package", "package", s.String())
	if err := r.fetch(ctx, s); err != nil {
		if ctx.Err() != nil {
			return Package{}, context.Cause(ctx)
		}
		r.log.Warn("package was not installed", "package", s.String(), "error", err)
		return Package{}, err
	}
	p, err := r.prepare(ctx, s)
	if err == nil {
		took := time.Since(began).Round(100 * time.Millisecond)
		r.log.Info("package is installed", "package", s.String(), "bundled", p.Bundled, "took", took)
		tell(fmt.Sprintf("Installed %s in %v", s, took))
	}
	return p, err
}

// fetch has npm install a package. The error is an [*InstallError], if ctx has
// not ended.
func (r *Repo) fetch(ctx context.Context, s specifier) error {
	err := place(r.folder(s), func(dir string) error {
		if err := write(filepath.Join(dir, "package.json"), []byte("{\"private\":true}\n")); err != nil {
			return err
		}
		if err := r.inTurn(ctx, func() error { return npmInstall(ctx, dir, s) }); err != nil {
			return err
		}
		got, err := readPackage(npmFolder(dir, s.name))
		if err == nil && got.Version != s.version {
			err = fmt.Errorf("npm installed version %s", got.Version)
		}
		return err
	})
	if _, ok := errors.AsType[*InstallError](err); ok || err == nil {
		return err
	}
	return &InstallError{Specifier: s.String(), Reason: "the folder for adaptors cannot be used: " + err.Error()}
}

// prepare bundles a package that npm has installed. What keeps it from that for
// now is logged, and tried again after a while; the package is good without.
func (r *Repo) prepare(ctx context.Context, s specifier) (Package, error) {
	if s.name == bundlerName {
		return readPackage(npmFolder(r.folder(s), s.name))
	}
	if p, ok := r.unprepared.get(s.String()); ok {
		return p, nil
	}
	err := place(r.preparedFolder(s), func(dir string) error {
		return r.bundle(ctx, s, dir)
	})
	if err == nil {
		var p Package
		if p, err = r.prepared(s); err == nil {
			return p, nil
		}
	}
	if ctx.Err() != nil {
		return Package{}, context.Cause(ctx)
	}
	r.log.Warn("package is used without a bundle for now", "package", s.String(), "error", err)
	p, err := readPackage(npmFolder(r.folder(s), s.name))
	if err != nil {
		return Package{}, &InstallError{Specifier: s.String(), Reason: "the folder for adaptors cannot be read: " + err.Error()}
	}
	p, err = withExports(ctx, p, r.folder(s))
	if err == nil {
		r.unprepared.put(s.String(), p)
	}
	return p, err
}
