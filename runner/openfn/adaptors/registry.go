package adaptors

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/phxworker/phxworker/runner/npm"
)

// cacheFolder is where fetched packages are kept if neither npm's settings nor the user have
// a place for them.
const cacheFolder = ".fetched"

// client returns who fetches packages, by the settings as they are now: a token that was
// changed counts without a restart. The error is an [*InstallError].
func (r *Repo) client(ctx context.Context, of specifier) (*npm.Client, error) {
	// Not from the repo's folder, which jobs may read.
	settings, err := npm.Load(".", os.Environ(), isOurs)
	if err != nil {
		return nil, r.notFetched(of, err)
	}
	cfg := npm.Config{Settings: settings, Node: r.nodeVersion(ctx), Logger: r.log}
	for _, cfg.Cache = range r.caches(settings) {
		var c *npm.Client
		if c, err = npm.New(cfg); err == nil {
			return c, nil
		}
		if !takesNoWrites(err) && !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	return nil, r.notFetched(of, err)
}

// reading are the files of a package while somebody reads them.
type reading struct {
	*npm.Files

	end context.CancelFunc

	// The mutex of the repo guards these.
	users int
	left  bool // by all: it is not to be read any more
}

// Files returns the files of a package and of all that it needs, of which none is written. All who read them before they
// call done have the same in memory. The error is an [*InstallError], or why ctx ended.
func (r *Repo) Files(ctx context.Context, name, version string) (files *npm.Files, done func(), err error) {
	s := specifier{name, version}
	found, err := r.reads.Do(ctx, s.String(), nil, func(context.Context, func(string)) (*reading, error) {
		if found := r.read(s); found != nil {
			return found, nil
		}
		ctx, end := context.WithTimeoutCause(r.life, installTimeout, givenUp(s)) // what the cache has lost meanwhile is fetched again
		files, err := r.fetched(ctx, s, func(c *npm.Client) (*npm.Files, error) { return c.Files(ctx, name, version) })
		if err != nil {
			end()
		}
		return &reading{Files: files, end: end}, err
	})
	if err != nil {
		return nil, nil, err
	}
	r.sharedMu.Lock()
	left := found.left
	if !left {
		found.users++
		r.shared[s] = found
	}
	r.sharedMu.Unlock()
	if left { // by all others, just now
		return r.Files(ctx, name, version)
	}
	return found.Files, func() { r.leave(s, found) }, nil
}

func (r *Repo) read(s specifier) *reading {
	r.sharedMu.Lock()
	defer r.sharedMu.Unlock()
	return r.shared[s]
}

// leave has the last one take the files out of memory, with what came of them: bundling takes more than all else that a worker does.
func (r *Repo) leave(s specifier, f *reading) {
	r.sharedMu.Lock()
	f.users--
	last := f.users == 0
	if last {
		f.left = true
		f.end()
		delete(r.shared, s)
	}
	r.sharedMu.Unlock()
	if last {
		debug.FreeOSMemory()
	}
}

// Locked is Files for packages of which all is known beforehand, that nobody shares; see [npm.Client.Locked].
func (r *Repo) Locked(ctx context.Context, packages []npm.Package) (*npm.Files, error) {
	return r.fetched(ctx, specifier{packages[0].Name, packages[0].Version}, func(c *npm.Client) (*npm.Files, error) { return c.Locked(ctx, packages) })
}

// fetched returns files, for which no connection is needed any more.
func (r *Repo) fetched(ctx context.Context, of specifier, find func(*npm.Client) (*npm.Files, error)) (*npm.Files, error) {
	c, err := r.client(ctx, of)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	files, err := find(c)
	switch {
	case err == nil:
		return files, nil
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	}
	return nil, r.notFetched(of, err)
}

// isOurs reports whether a variable is for the worker alone.
func isOurs(variable string) bool { return strings.HasPrefix(variable, "WORKER_") }

// caches are the folders that fetched packages may be kept in, the best first.
func (r *Repo) caches(settings npm.Settings) []string {
	own := filepath.Join(r.dir, cacheFolder)
	if settings.Cache != "" {
		return []string{filepath.Join(settings.Cache, "phxworker"), own}
	}
	if user, err := os.UserCacheDir(); err == nil {
		return []string{filepath.Join(user, "phxworker", "npm"), own}
	}
	return []string{own}
}

// nodeVersion is that of the node in PATH, as npm sees it; empty if there is none.
func (r *Repo) nodeVersion(ctx context.Context) string {
	r.nodeMu.Lock()
	defer r.nodeMu.Unlock()
	if r.node != "" {
		return r.node
	}
	path, err := exec.LookPath("node")
	if err != nil {
		return ""
	}
	cmd := process(ctx, path, "--version")
	cmd.Env = jobEnv()
	out, err := cmd.Output()
	version, ok := strings.CutPrefix(strings.TrimSpace(string(out)), "v")
	if err != nil || !ok || !versionPattern.MatchString(version) {
		return ""
	}
	r.node = version
	return version
}

// askRegistry asks for the version that a tag stands for. offline tells that the registry could not
// be asked.
func (r *Repo) askRegistry(ctx context.Context, s specifier) (version string, offline bool, err error) {
	c, err := r.client(ctx, s)
	if err != nil {
		return "", false, err
	}
	defer c.Close()
	version, err = c.Version(ctx, s.name, s.version)
	switch {
	case ctx.Err() != nil:
		return "", false, context.Cause(ctx)
	case err != nil:
		e, _ := errors.AsType[*npm.Error](err)
		return "", e != nil && (e.Kind == npm.Offline || e.Kind == npm.Unreachable), r.notFetched(s, err)
	case !(specifier{s.name, version}).exact():
		return "", false, &InstallError{Specifier: s.String(), Reason: "the registry has no version of this package with that tag"}
	}
	return version, false, nil
}

// NotFetched makes an [*InstallError] of an error of the files that [Repo.Files] or [Repo.Locked] returned.
func (r *Repo) NotFetched(name, version string, err error) error {
	return r.notFetched(specifier{name, version}, err)
}

// notFetched makes an [*InstallError] of why a package could not be had.
func (r *Repo) notFetched(of specifier, err error) error {
	if e, ok := errors.AsType[*npm.Error](err); ok {
		reason := e.Reason
		if e.Package != "" && e.Package != of.String() && e.Package != of.name {
			reason = "it needs " + e.Error()
		}
		unable := e.Kind == npm.Unreachable || e.Kind == npm.Unauthorized || e.Kind == npm.Misconfigured
		return &InstallError{Specifier: of.String(), Reason: reason, Unable: unable}
	}
	if pretence, ok := errors.AsType[*falseError](err); ok {
		return &InstallError{Specifier: of.String(), Reason: pretence.Error()}
	}
	if own, ok := errors.AsType[*InstallError](err); ok {
		return own
	}
	reason := r.unusable(err).Error()
	if kept, ok := errors.AsType[*npm.CacheError](err); ok {
		reason = kept.Error()
		if errors.Is(err, syscall.ENOSPC) {
			reason = "no space left in " + kept.Dir
		}
	}
	return &InstallError{Specifier: of.String(), Reason: reason, Unable: true, Closed: takesNoWrites(err)}
}
