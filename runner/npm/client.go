package npm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"
)

const (
	// A document of all versions of a package; the largest that npm's registry has are
	// a third of it.
	mostMetadata = 64 << 20
	// All documents that one package and what it needs are resolved with.
	mostAllMetadata = 512 << 20
	// The archive of one package, and all of one install.
	mostArchive     = 256 << 20
	mostAllArchives = 1 << 30

	// freshFor is how long npm's registry lets its answers be taken for true.
	freshFor     = 5 * time.Minute
	defaultCache = 1 << 30

	abbreviated = "application/vnd.npm.install-v1+json; q=1.0, application/json; q=0.8"
	complete    = "application/json"
)

// Config is how to install.
type Config struct {
	// Settings are npm's.
	Settings Settings
	// Cache is the folder for what was fetched. It is made, and private. Required.
	Cache string
	// CacheLimit is how many bytes the cache may have. Defaults to 1 GB.
	CacheLimit int64
	// Node is the version of Node that packages are for, as in 24.13.0: npm prefers
	// versions that say to run with it. Without one, that is not looked at.
	Node string
	// Logger tells of fetches. Defaults to one that discards.
	Logger *slog.Logger
}

// Client fetches and installs packages. All methods are safe for concurrent use. A client
// remembers what registries have said: make one for each occasion.
type Client struct {
	settings  Settings
	transport *transport
	cache     cache
	limit     int64
	by        choice
	log       *slog.Logger

	turns *semaphore.Weighted // of requests

	caches  flights[*packument] // what is in the cache, by name
	answers flights[*packument] // of registries, by name
	fetches flights[struct{}]   // of archives, by sum
}

// New returns a client. It asks nobody anything yet. Who is done with it calls Close. The error is
// an [*Error] about the settings, or a [*CacheError].
func New(cfg Config) (*Client, error) {
	c := &Client{
		settings: cfg.Settings, cache: cache{cfg.Cache}, limit: cmp.Or(cfg.CacheLimit, defaultCache),
		by:  choice{node: cfg.Node, tag: cfg.Settings.tag, before: cfg.Settings.before},
		log: cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler)), turns: semaphore.NewWeighted(int64(cfg.Settings.sockets)),
	}
	var err error
	if c.transport, err = newTransport(&c.settings); err != nil {
		return nil, err
	}
	return c, c.cache.open()
}

// Close closes connections, and makes room in the cache if it is over its bound.
func (c *Client) Close() {
	c.transport.close()
	c.cache.lessen(c.limit)
}

// Version returns the version that a tag, a range or a version stands for now, of what
// the registry has. It asks the registry again if the last answer is over five minutes old.
func (c *Client) Version(ctx context.Context, name, text string) (string, error) {
	s, err := parseSpec(name, text)
	if err != nil {
		return "", err
	}
	m, err := c.manifest(ctx, s, &budget{})
	if err != nil {
		return "", about(s.String(), err)
	}
	return m.Version, nil
}

// A budget is what one operation has fetched, in bytes.
type budget struct{ metadata, archives atomic.Int64 }

func spend(spent *atomic.Int64, n, limit int64, what string) error {
	if spent.Add(n) > limit {
		return &Error{Kind: Untrusted, Reason: fmt.Sprintf("its %s are over %d MB in all", what, limit>>20)}
	}
	return nil
}

// manifest is what the registry says of the version that is picked. A version, which is never
// another one once it is published, is believed of any age.
func (c *Client) manifest(ctx context.Context, s spec, b *budget) (*manifest, error) {
	if s.exact != "" && c.by.before.IsZero() {
		if p := c.kept(s.name); p != nil && p.versions[s.exact] != nil {
			return p.pick(s, c.by)
		}
	}
	p, asked, err := c.current(ctx, s.name, b, freshFor)
	if err != nil {
		return nil, err
	}
	m, err := p.pick(s, c.by)
	if e, ok := errors.AsType[*Error](err); ok && e.Kind == NoVersion && !asked && !c.settings.offline {
		if p, _, err = c.current(ctx, s.name, b, 0); err != nil { // it may have been published since
			return nil, err
		}
		m, err = p.pick(s, c.by)
	}
	return m, err
}

// kept returns what is in the cache, of whatever age; nil if there is nothing.
func (c *Client) kept(name string) *packument {
	p, _ := c.caches.do(context.Background(), name, func() (*packument, error) {
		home := c.settings.registryOf(name)
		e, ok := c.cache.readDocument(c.documentOf(home, name))
		if !ok {
			return nil, nil
		}
		p, err := readPackument(e.Rest, name, hostOf(home))
		if err != nil {
			return nil, nil //nolint:nilerr // it is asked for again
		}
		p.entry = e
		return p, nil
	})
	return p
}

func hostOf(address string) string {
	u, _ := url.Parse(address) // was read before
	return u.Host
}

// documentOf is where metadata is, and under what it is kept: there are two forms of it.
func (c *Client) documentOf(home, name string) string {
	if c.by.before.IsZero() {
		return addressOf(home, name)
	}
	return addressOf(home, name) + "#times"
}

// current returns what the registry says, unless what is in the cache is fresh. asked
// tells that the registry was asked just now.
func (c *Client) current(ctx context.Context, name string, b *budget, fresh time.Duration) (p *packument, asked bool, err error) {
	if fresh > 0 {
		old := c.kept(name)
		if old != nil && (c.settings.offline || c.settings.preferOffline || time.Since(old.entry.Asked).Abs() < fresh) {
			return old, false, nil
		}
	}
	if c.settings.offline {
		return nil, false, &Error{Kind: Offline, Package: name, Reason: "npm is set to be offline, and it is not in the cache"}
	}
	p, err = c.answers.do(ctx, name, func() (*packument, error) { return c.ask(ctx, name, b) })
	return p, true, err
}

// ask asks the registry, and keeps the answer.
func (c *Client) ask(ctx context.Context, name string, b *budget) (*packument, error) {
	registry := c.settings.registryOf(name)
	home, err := url.Parse(registry)
	if err != nil {
		return nil, misconfigured("the registry of %s is no address", name)
	}
	q := request{address: addressOf(registry, name), accept: abbreviated, home: home}
	if !c.by.before.IsZero() {
		q.accept = complete
	}
	old := c.kept(name)
	if old != nil {
		q.known = old.entry.Tag
	}
	if err := c.turns.Acquire(ctx, 1); err != nil {
		return nil, context.Cause(ctx)
	}
	defer c.turns.Release(1)
	c.log.Debug("asking for metadata", "package", name, "registry", home.Host)
	e := entry{Address: c.documentOf(registry, name)}
	err = c.get(ctx, q, func(header http.Header, body io.Reader) error {
		e.Tag = header.Get("ETag")
		var err error
		e.Rest, err = readAll(body, mostMetadata, header)
		return err
	})
	unchanged := errors.Is(err, errUnchanged) && old != nil
	switch {
	case unchanged:
		e = old.entry
	case err != nil:
		return nil, about(name, err)
	}
	if err := spend(&b.metadata, int64(len(e.Rest)), mostAllMetadata, "documents"); err != nil {
		return nil, err
	}
	p := old
	if !unchanged {
		if p, err = readPackument(e.Rest, name, home.Host); err != nil {
			return nil, err
		}
	}
	e.Asked = time.Now()
	if err := c.cache.storeDocument(e); err != nil {
		c.log.Warn("what a registry says was not kept", "package", name, "error", err)
	}
	return p, nil
}
