package packages

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/phxworker/phxworker/internal/flight"
	"github.com/phxworker/phxworker/runner/js"
	"github.com/phxworker/phxworker/runner/js/chunk"
	"github.com/phxworker/phxworker/runner/openfn/adaptors"
)

const (
	defaultMostBytes  = 256 << 20
	defaultMostMemory = 24 << 20
	// atATime is how many packages are prepared at the same time, each of which keeps all processors busy and takes memory.
	atATime = 2
	// A package takes no longer to be prepared than this.
	prepareTimeout = 10 * time.Minute
)

// Config is where adaptors come from and are kept.
type Config struct {
	// Repo knows which versions tags mean, and npm's settings. Required; it has to stay open.
	Repo *adaptors.Repo
	// Dir is the folder for what was prepared. It is made, and private. Defaults to a folder in that of the repo.
	Dir string
	// MostBytes is how much the chunks may take on the disk. Defaults to 256 MB.
	MostBytes int64
	// MostMemory is how much memory the chunks of adaptors may take that were used before. What runs use is kept beyond that,
	// and so is what stands in for Node's builtins. Defaults to 24 MB.
	MostMemory int64
	// Again has each adaptor prepared again when it is first asked for, though it was before.
	Again bool
	// Logger tells of what is prepared. Defaults to one that discards.
	Logger *slog.Logger
}

// Provider prepares adaptors. It may be used concurrently.
type Provider struct {
	cfg     Config
	flights flight.Group[*js.Package] // by name and version
	turns   *semaphore.Weighted       // of what is prepared

	mu    sync.Mutex
	cache *chunk.Cache // nil until it is first needed
	nodes *chunk.Store // what stands in for Node's builtins
	known known
}

var _ js.Packages = (*Provider)(nil)

// Open returns a Provider. It fetches nothing yet. Close it.
func Open(cfg Config) (*Provider, error) {
	if cfg.Repo == nil {
		return nil, errors.New("packages: no repo")
	}
	cfg.Dir = cmp.Or(cfg.Dir, filepath.Join(cfg.Repo.Dir(), ".embedded"))
	cfg.MostBytes = cmp.Or(cfg.MostBytes, defaultMostBytes)
	cfg.MostMemory = cmp.Or(cfg.MostMemory, defaultMostMemory)
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	return &Provider{cfg: cfg, turns: semaphore.NewWeighted(atATime), known: known{most: cfg.MostMemory}}, nil
}

// Close ends what is being prepared, and waits for it. No run may be under way.
func (p *Provider) Close() error {
	p.flights.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cache == nil {
		return nil
	}
	return p.cache.Close()
}

// Package implements [js.Packages]: it returns an adaptor by what a plan calls it, or a builtin of Node's, and prepares it
// first if need be. progress may be nil.
func (p *Provider) Package(ctx context.Context, specifier string, progress func(string)) (*js.Package, error) {
	one, err := p.find(ctx, specifier, progress)
	if err == nil || ctx.Err() != nil {
		return one, err
	}
	if install, ok := errors.AsType[*adaptors.InstallError](err); ok {
		return nil, &js.PackageError{Reason: err.Error(), Passing: install.Unable && !install.Closed}
	}
	// What is wrong with a package is a verdict, and no error.
	return nil, &js.PackageError{Reason: "Error installing " + specifier + ": " + err.Error(), Passing: true}
}

func (p *Provider) find(ctx context.Context, specifier string, progress func(string)) (*js.Package, error) {
	name, version := specifier, ""
	if name != js.Builtins {
		var err error
		if name, version, err = p.exact(ctx, specifier, progress); err != nil {
			return nil, err
		}
	}
	if version == adaptors.Local {
		return &js.Package{Name: name, Version: version, Node: "is one of the monorepo"}, nil
	}
	key := name + "@" + version
	if one := p.remembered(key); one != nil {
		return one, nil
	}
	return p.flights.Do(ctx, key, progress, func(ctx context.Context, tell func(string)) (*js.Package, error) {
		ctx, cancel := context.WithTimeoutCause(ctx, prepareTimeout, fmt.Errorf("it was given up after %v", prepareTimeout))
		defer cancel()
		one, err := p.load(ctx, name, version, tell)
		if err != nil && ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return one, err
	})
}

func (p *Provider) remembered(key string) *js.Package {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.known.get(key)
}

// remember keeps a package, in the folder too if what was found out is new, and returns the one to use: one that a run has
// shown to be unfit meanwhile stays so.
func (p *Provider) remember(one *js.Package, found *record) *js.Package {
	p.mu.Lock()
	defer p.mu.Unlock()
	if marked := p.known.get(one.Name + "@" + one.Version); marked != nil && marked.Node != "" {
		return marked
	}
	if found != nil {
		p.write(one.Name, one.Version, recordSuffix, found)
	}
	if why := p.readMark(one.Name, one.Version); why != "" {
		one = unfit(one, why)
	}
	p.known.put(one)
	return one
}

// exact returns the version that a specifier means. Where the registry cannot be asked for the latest one, that is the newest that
// was prepared.
func (p *Provider) exact(ctx context.Context, specifier string, progress func(string)) (name, version string, err error) {
	name, version, err = p.cfg.Repo.Exact(ctx, specifier, progress)
	if install, ok := errors.AsType[*adaptors.InstallError](err); ok && install.Unable && ctx.Err() == nil {
		if newest := p.newest(specifier); newest != "" {
			p.cfg.Logger.Warn("latest version is not known, taking the newest that was prepared", "package", specifier, "version", newest, "error", err)
			return trimLatest(specifier), newest, nil
		}
	}
	return name, version, err
}

// Unfit implements [js.Packages]. An adaptor that was verified stays for the embedded engine: one job that asks it for what
// nobody else does is no reason to refuse those of all others.
func (p *Provider) Unfit(one *js.Package, why string) {
	key := one.Name + "@" + one.Version
	p.cfg.Logger.Warn("an adaptor called for what the embedded engine does not have", "package", key, "reason", why)
	if isVerified(key) {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.known.put(unfit(one, why))
	p.write(one.Name, one.Version, markSuffix, mark{why, judgesVersion()})
}

func unfit(one *js.Package, why string) *js.Package {
	marked := *one
	marked.Node, marked.Chunks = why, nil
	return &marked
}
