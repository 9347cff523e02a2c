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
	ctx, cancel := context.WithTimeoutCause(ctx, installTimeout, &InstallError{
		Specifier: s.String(), Reason: fmt.Sprintf("the install was given up after %v", installTimeout), Unable: true,
	})
	defer cancel()
	unlock, err := r.lock(ctx, s, tell)
	if err != nil {
		return Package{}, err
	}
	defer unlock()
	if p, ok := r.ready(s); ok && !again { // since another process was first
		return p, nil
	}
	there := exists(r.folder(s))
	if there && !again {
		p, err := r.repaired(ctx, s)
		if !errors.Is(err, errDamaged) {
			return p, err
		}
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
	return r.fetchAndPrepare(ctx, s, there, tell)
}

// repaired prepares a package that was installed some time ago. The error is
// [errDamaged] if it has to be installed again.
func (r *Repo) repaired(ctx context.Context, s specifier) (Package, error) {
	recorded, err := r.whole(s)
	if err != nil {
		return Package{}, err
	}
	p, err := r.prepare(ctx, s)
	if err == nil && p.Problem != "" && !recorded { // it may not be the package's fault
		return Package{}, fmt.Errorf("%w: %s", errDamaged, p.Problem)
	}
	return p, err
}

func (r *Repo) fetchAndPrepare(ctx context.Context, s specifier, there bool, tell func(string)) (Package, error) {
	began := time.Now()
	tell("Installing " + s.String())
	r.log.Info("installing package", "package", s.String())
	if err := r.fetch(ctx, s, there); err != nil {
		if ctx.Err() != nil {
			return Package{}, context.Cause(ctx)
		}
		r.log.Warn("package was not installed", "package", s.String(), "error", err)
		return Package{}, err
	}
	r.unprepared.remove(s.String())
	p, err := r.prepare(ctx, s)
	if err == nil {
		r.renewed.Store(s, true)
		took := time.Since(began).Round(100 * time.Millisecond)
		r.log.Info("package is installed", "package", s.String(), "bundled", p.Bundled, "took", took)
		tell(fmt.Sprintf("Installed %s in %v", s, took))
	}
	return p, err
}

// fetch installs a package, also if it is there. The error is an
// [*InstallError], if ctx has not ended.
func (r *Repo) fetch(ctx context.Context, s specifier, there bool) error {
	good := func() bool { return !there && exists(npmFolder(r.folder(s), s.name)) }
	err := place(r.folder(s), good, func(dir string) error {
		if err := r.inTurn(ctx, func() error { return r.installInto(ctx, dir, s) }); err != nil {
			return err
		}
		return checkInstalled(dir, s)
	})
	if pretence, ok := errors.AsType[*falseError](err); ok {
		return &InstallError{Specifier: s.String(), Reason: pretence.Error()}
	}
	if _, ok := errors.AsType[*InstallError](err); ok || err == nil {
		return err
	}
	return &InstallError{Specifier: s.String(), Reason: r.unusable(err).Error(), Unable: true, Closed: takesNoWrites(err)}
}

// checkInstalled sees that what is in dir is what was to be installed, and records it.
func checkInstalled(dir string, s specifier) error {
	got, err := genuine(dir, s.name)
	if err != nil {
		return err
	}
	if got.Version != s.version {
		return &InstallError{Specifier: s.String(), Reason: "the archive has version " + got.Version}
	}
	if err := enclosed(dir); err != nil {
		return err
	}
	return record(dir)
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

// Mend installs a package of the repo again if files of it are missing or cut short, or
// if nobody knows whether they are. It reports whether it did.
func (r *Repo) Mend(ctx context.Context, p Package, progress func(string)) (mended bool, err error) {
	if progress == nil {
		progress = func(string) {}
	}
	s := specifier{p.Name, p.Version}
	if !strings.HasPrefix(p.Dir, r.folder(s)) { // of the monorepo
		return false, nil
	}
	if recorded, err := r.whole(s); err == nil && recorded {
		if _, ok := r.ready(s); ok {
			return false, nil
		}
	}
	_, err = r.installs.do(ctx, "mend "+s.String(), progress, func(ctx context.Context, tell func(string)) (Package, error) {
		return r.install(ctx, s, true, tell)
	})
	return err == nil, err
}

// prepare bundles a package that is installed. What keeps it from that for
// now is logged, and tried again after a while; the package is good without.
func (r *Repo) prepare(ctx context.Context, s specifier) (Package, error) {
	if s.name == bundlerName {
		return genuine(r.folder(s), s.name)
	}
	if p, ok := r.unprepared.get(s.String()); ok {
		return p, nil
	}
	good := func() bool { _, err := r.prepared(s); return err == nil }
	err := place(r.preparedFolder(s), good, func(dir string) error {
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
	p, err := genuine(r.folder(s), s.name)
	if err != nil {
		return Package{}, &InstallError{Specifier: s.String(), Reason: "the folder for adaptors cannot be read: " + err.Error(), Unable: true}
	}
	p, err = withExports(ctx, p, r.folder(s))
	if err == nil {
		r.unprepared.put(s.String(), p)
	}
	return p, err
}
