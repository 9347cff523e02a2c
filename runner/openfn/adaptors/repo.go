package adaptors

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/phxworker/phxworker/internal/flight"
)

// The packages that OpenFn's engine needs beside adaptors, in the versions whose
// behaviour the worker is tested with.
const (
	runtimeName    = "@openfn/runtime"
	runtimeVersion = "1.9.5"
	loggerName     = "@openfn/logger" // in the version that the runtime depends on
)

const (
	defaultLatestFor = 5 * time.Minute
	// retryAfter is when a package that could not be installed, and was there in another form, is tried again.
	retryAfter = 5 * time.Minute
	// atATime is how many installs there are at the same time, each of which can keep a processor
	// busy and takes memory.
	atATime = 2
)

// Config is where packages are and how long to believe a tag.
type Config struct {
	// Dir is the folder that packages are installed in. It is made when the first
	// one is. Required.
	Dir string
	// Monorepo is the folder that @local packages are in, each under "packages"
	// and its name without the scope and without "language-". Without it, asking
	// for one is an [*InstallError].
	Monorepo string
	// LatestFor is how long the version that a tag stood for is used without
	// asking the registry again. Defaults to 5 minutes.
	LatestFor time.Duration
	// Flags are those for V8 that processes have which load packages: what is installed has its code cache for them at once.
	// Without any, [Repo.WarmCache] makes it.
	Flags []string
	// Again has each package installed again when it is first asked for, though it is
	// there.
	Again bool
	// Logger tells of installs, and of packages that cannot be bundled. Defaults
	// to one that discards.
	Logger *slog.Logger
}

// Repo is a folder of installed packages. All methods are safe for concurrent
// use, also by several processes with the same folder.
type Repo struct {
	dir          string
	monorepo     string
	bundleFolder string // the name of a folder in that of each package
	log          *slog.Logger
	again        bool
	flags        []string

	installs flight.Group[Package]  // by exact specifier
	lookUps  flight.Group[string]   // of versions, by specifier with a tag
	reads    flight.Group[*reading] // of packages, by exact specifier

	turns chan struct{} // holds one for each install that runs

	life context.Context //nolint:containedctx // ends with Close
	end  context.CancelCauseFunc

	sharedMu sync.Mutex
	shared   map[specifier]*reading

	nodeMu sync.Mutex
	node   string // its version; empty before it is known

	tags      expiring[string]  // versions, by specifier with a tag
	ofOthers  expiring[Package] // of other versions of this program, by exact specifier
	warmed    warmed
	cached    sync.Map // by its folder, what was installed with a code cache for the flags
	renewed   sync.Map // by exact specifier, what was installed again
	sound     sync.Map // by exact specifier, what was found to be whole
	ofWorkers sync.Map // by exact specifier, packages of OpenFn's worker
}

// Open returns the repo in a folder. It looks at no package and at no program
// before something is asked for.
func Open(cfg Config) (*Repo, error) {
	if cfg.Dir == "" {
		return nil, errors.New("no folder for adaptors: set --repo-dir or WORKER_REPO_DIR")
	}
	dir, err := realPath(cfg.Dir)
	if err != nil {
		return nil, fmt.Errorf("the folder for adaptors (--repo-dir) cannot be used: %w; name one of this user's with --repo-dir, or set HOME to a folder of this user's", err)
	}
	r := &Repo{dir: dir, bundleFolder: bundleFolder(), log: cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler)), again: cfg.Again, flags: cfg.Flags, turns: make(chan struct{}, atATime), shared: make(map[specifier]*reading)}
	r.life, r.end = context.WithCancelCause(context.Background())
	r.tags.goodFor = cmp.Or(cfg.LatestFor, defaultLatestFor)
	r.ofOthers.goodFor = retryAfter
	if cfg.Monorepo != "" {
		if r.monorepo, err = realPath(cfg.Monorepo); err != nil {
			return nil, fmt.Errorf("the folder with local adaptors (--monorepo-dir) cannot be used: %w", err)
		}
	}
	return r, nil
}

// Close ends the installs that are under way, also those that nobody waits for
// any more, and returns when they have ended.
func (r *Repo) Close() {
	r.end(flight.ErrClosed)
	r.installs.Close()
	r.lookUps.Close()
	r.reads.Close()
}

// realPath returns the absolute path without symbolic links, for Node's
// permission model compares those. The end of the path need not be there.
func realPath(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	for there, rest := path, ""; ; there, rest = filepath.Dir(there), filepath.Join(filepath.Base(there), rest) {
		resolved, err := filepath.EvalSymlinks(there)
		switch {
		case err == nil:
			return filepath.Join(resolved, rest), nil
		case !errors.Is(err, os.ErrNotExist) || there == filepath.Dir(there):
			return "", err
		}
	}
}

// Dir returns the folder, absolute and without symbolic links. All that is loaded
// of a package lies in it, but for @local packages.
func (r *Repo) Dir() string { return r.dir }

// Resolve returns the package that a specifier names, as in
// "@openfn/language-http@7.2.10", and installs it if it is not there. A version
// may be a tag; none is the tag latest; "local" is the package in the monorepo.
// progress gets lines for the person who waits, while Resolve runs and from the
// goroutine that called it; it may be nil.
//
// The error is an [*InstallError], or why ctx ended.
func (r *Repo) Resolve(ctx context.Context, text string, progress func(string)) (Package, error) {
	s, err := parse(text)
	if err != nil {
		return Package{}, err
	}
	if s.version == localTag {
		return r.local(ctx, s)
	}
	if !s.exact() {
		if s, err = r.exact(ctx, s, progress); err != nil {
			return Package{}, err
		}
	}
	return r.exactly(ctx, s, progress)
}

// Runtime returns OpenFn's runtime and its logger, and installs them if they are
// not there; of the logger, Exports is nil. The import of "@openfn/runtime" by the
// runtime itself, which it does for jobs, gives the same module as the import of
// its Entry.
func (r *Repo) Runtime(ctx context.Context, progress func(string)) (runtime, logger Package, err error) {
	runtime, err = r.Resolve(ctx, runtimeName+"@"+runtimeVersion, progress)
	if err != nil {
		return Package{}, Package{}, err
	}
	// The logger lies beside the runtime, in a bundle as well as where it was installed.
	logger, err = genuine(filepath.Join(runtime.Dir, "..", "..", ".."), loggerName)
	if err != nil {
		return Package{}, Package{}, &InstallError{Specifier: runtimeName + "@" + runtimeVersion, Reason: "its logger is not there: " + err.Error(), Unable: true}
	}
	logger.Bundled = runtime.Bundled
	return runtime, logger, nil
}

// HasRuntime reports whether the runtime is installed and prepared.
func (r *Repo) HasRuntime() bool {
	_, err := r.ready(specifier{runtimeName, runtimeVersion})
	return err == nil
}

// Check returns why nothing can be installed here, as far as a look tells. What is closed
// looks like something that is meant so: the folder may not be written.
func (r *Repo) Check() (closed bool, err error) {
	if err := r.write(); err != nil {
		return takesNoWrites(err), r.unusable(err)
	}
	return false, nil
}

// write writes a file, as large as a page, and removes it.
func (r *Repo) write() error {
	if err := mkdir(r.dir); err != nil {
		return err
	}
	f, err := os.CreateTemp(r.dir, unfinished+"*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(make([]byte, 4096))
	return errors.Join(err, f.Close())
}

// exactly returns a package by its version.
func (r *Repo) exactly(ctx context.Context, s specifier, progress func(string)) (Package, error) {
	again := false
	if r.again {
		_, done := r.renewed.Load(s)
		again = !done
	}
	if p, err := r.ready(s); err == nil && !again {
		return p, nil
	}
	if p, ok := r.ofWorkers.Load(s); ok && !again {
		return p.(Package), nil //nolint:forcetypeassert // see ofWorker
	}
	if p, ok := r.ofOthers.get(s.String()); ok && !again {
		return p, nil
	}
	return r.installs.Do(ctx, s.String(), progress, func(ctx context.Context, tell func(string)) (Package, error) {
		return r.install(ctx, s, again, tell)
	})
}
