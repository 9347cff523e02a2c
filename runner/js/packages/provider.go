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

	"golang.org/x/sync/singleflight"

	"github.com/phxworker/phxworker/runner/js"
	"github.com/phxworker/phxworker/runner/js/chunk"
	"github.com/phxworker/phxworker/runner/openfn/adaptors"
)

const (
	defaultMostBytes = 256 << 20
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
	// Again has each adaptor prepared again when it is first asked for, though it was before.
	Again bool
	// Logger tells of what is prepared. Defaults to one that discards.
	Logger *slog.Logger
}

// Provider prepares adaptors. It may be used concurrently.
type Provider struct {
	cfg     Config
	cache   *chunk.Cache
	nodes   *chunk.Store // what stands in for Node's builtins
	flights singleflight.Group

	ctx     context.Context // of all that is prepared
	end     context.CancelCauseFunc
	mu      sync.Mutex
	closed  bool
	running sync.WaitGroup
	known   map[string]*js.Package // by name and version
}

var _ js.Packages = (*Provider)(nil)

var errClosed = errors.New("the worker stops")

// Open returns a Provider. It fetches nothing yet. Close it.
func Open(cfg Config) (*Provider, error) {
	if cfg.Repo == nil {
		return nil, errors.New("packages: no repo")
	}
	cfg.Dir = cmp.Or(cfg.Dir, filepath.Join(cfg.Repo.Dir(), ".embedded"))
	cfg.MostBytes = cmp.Or(cfg.MostBytes, defaultMostBytes)
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	p := &Provider{cfg: cfg, known: make(map[string]*js.Package)}
	p.ctx, p.end = context.WithCancelCause(context.Background())
	return p, nil
}

// Close ends what is being prepared, and waits for it. No run may be under way.
func (p *Provider) Close() error {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.end(errClosed)
	p.running.Wait()
	if p.cache == nil {
		return nil
	}
	return p.cache.Close()
}

// Package implements [js.Packages]: it returns an adaptor by what a plan calls it, and prepares it first if need be. The
// error is an [*adaptors.InstallError], or why ctx ended.
func (p *Provider) Package(ctx context.Context, specifier string) (*js.Package, error) {
	name, version, err := p.exact(ctx, specifier)
	if err != nil {
		return nil, err
	}
	if version == adaptors.Local {
		return &js.Package{Name: name, Version: version, Node: "is one of the monorepo"}, nil
	}
	key := name + "@" + version
	if one := p.remembered(key); one != nil {
		return one, nil
	}
	flight := p.flights.DoChan(key, func() (any, error) {
		if !p.enter() {
			return nil, errClosed
		}
		defer p.running.Done()
		ctx, cancel := context.WithTimeoutCause(p.ctx, prepareTimeout, fmt.Errorf("it was given up after %v", prepareTimeout))
		defer cancel()
		one, err := p.load(ctx, name, version)
		if err != nil && ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return one, err
	})
	select {
	case done := <-flight:
		if done.Err != nil {
			return nil, notPrepared(key, done.Err)
		}
		return done.Val.(*js.Package), nil //nolint:forcetypeassert // see above
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// notPrepared makes an [*adaptors.InstallError] of why an adaptor is not there.
func notPrepared(specifier string, err error) error {
	if _, ok := errors.AsType[*adaptors.InstallError](err); ok {
		return err
	}
	return &adaptors.InstallError{Specifier: specifier, Reason: err.Error()}
}

// enter lets Close wait for what is prepared; it reports whether anything may be.
func (p *Provider) enter() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		p.running.Add(1)
	}
	return !p.closed
}

func (p *Provider) remembered(key string) *js.Package {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.known[key]
}

func (p *Provider) remember(one *js.Package) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.known[one.Name+"@"+one.Version] = one
}

// exact returns the version that a specifier means. Where the registry cannot be asked for the latest one, that is the newest that
// was prepared.
func (p *Provider) exact(ctx context.Context, specifier string) (name, version string, err error) {
	name, version, err = p.cfg.Repo.Exact(ctx, specifier)
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
	marked := *one
	marked.Node = why
	p.remember(&marked)
	if found, ok := p.readRecord(one.Name, one.Version); ok {
		found.Node = why
		p.writeRecord(found)
	}
}
