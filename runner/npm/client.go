package npm

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"
)

const (
	// A document of all versions of a package; the largest that npm's registry has are
	// a third of it.
	mostMetadata = 64 << 20
	// All documents that one client asks for.
	mostAllMetadata = 512 << 20
	// The archive of one package, and all that one client fetches.
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

// Client fetches packages. All methods are safe for concurrent use. A client
// remembers what registries have said, failures too: make one for each occasion.
type Client struct {
	settings  Settings
	transport *transport
	cache     cache
	limit     int64
	by        choice
	log       *slog.Logger

	turns *semaphore.Weighted // of requests
	// In bytes, of all requests.
	documents, archives atomic.Int64

	stored     once[*document] // in the cache, by name
	answers    once[*document] // of registries, by name
	packuments once[*packument]
	fetches    once[struct{}] // of archives, by sum
	used       sync.Map       // the documents that ranges were looked up in, by name
}

// once does each piece of work once for all who want it.
type once[T any] struct{ m sync.Map }

func (o *once[T]) do(key string, work func() (T, error)) (T, error) {
	f, _ := o.m.LoadOrStore(key, sync.OnceValues(work))
	return f.(func() (T, error))() //nolint:forcetypeassert // see above
}

// each calls f with what was done.
func (o *once[T]) each(f func(T)) {
	o.m.Range(func(_, done any) bool {
		if value, err := done.(func() (T, error))(); err == nil { //nolint:forcetypeassert // see above
			f(value)
		}
		return true
	})
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

// Made returns what was kept under a key, if it is whole and nobody else could have written it.
func (c *Client) Made(key string) (data []byte, ok bool) {
	data, _, _, ok = c.cache.readSealed(made, key)
	if ok = ok && c.cache.ours(made); ok {
		used(c.cache.sealed(made, key))
	}
	return data, ok
}

// Keep keeps what was made of packages, for all who use the same cache. The key says all that it depends on. What
// cannot be kept is made again.
func (c *Client) Keep(key string, data []byte) {
	if _, err := c.cache.storeSealed(made, key, data); err != nil {
		c.log.Debug("what was made of packages was not kept", "error", err)
	}
}

// Version returns the version that a tag, a range or a version stands for now, of what
// the registry has. It asks the registry again if the last answer is over five minutes old.
func (c *Client) Version(ctx context.Context, name, text string) (string, error) {
	s, err := parseSpec(name, text)
	if err != nil {
		return "", err
	}
	m, err := c.manifest(ctx, s)
	if err != nil {
		return "", about(s.String(), err)
	}
	return m.Version, nil
}

// manifest is what the registry says of the version that is picked. A version, which is never
// another one once it is published, is believed of any age.
func (c *Client) manifest(ctx context.Context, s spec) (*manifest, error) {
	if d := c.kept(s.name); d != nil && s.exact != "" && c.by.before.IsZero() {
		if p, err := c.read(d); err == nil && p.versions[s.exact] != nil {
			return p.pick(s, c.by)
		}
	}
	d, asked, err := c.document(ctx, s.name)
	if err != nil {
		return nil, err
	}
	m, err := c.pick(d, s)
	if e, ok := errors.AsType[*Error](err); ok && e.Kind == NoVersion && !asked && !c.settings.offline {
		if d, err = c.ask(ctx, s.name); err != nil { // it may have been published since
			return nil, err
		}
		m, err = c.pick(d, s)
	}
	return m, err
}

func (c *Client) pick(d *document, s spec) (*manifest, error) {
	p, err := c.read(d)
	if err != nil {
		return nil, err
	}
	c.used.Store(s.name, d)
	return p.pick(s, c.by)
}

// A document is the metadata of a package, as it came at some time.
type document struct {
	name, host string
	tag        string // the registry's, by which it knows it again
	text       []byte
	sum        []byte // of where it came from, its tag and its text
	asked      time.Time
}

func (c *Client) read(d *document) (*packument, error) {
	return c.packuments.do(d.name+" "+d.tag+" "+d.asked.String(), func() (*packument, error) { return readPackument(d.text, d.name, d.host) })
}

// keyOf is what the metadata of a package is kept under: there are two forms of it.
func (c *Client) keyOf(name string) string {
	key := addressOf(c.settings.registryOf(name), name)
	if !c.by.before.IsZero() {
		key += "#times"
	}
	return key
}

// kept returns what is in the cache, of whatever age; nil if there is nothing.
func (c *Client) kept(name string) *document {
	d, _ := c.stored.do(name, func() (*document, error) {
		data, sum, asked, ok := c.cache.readSealed(metadata, c.keyOf(name))
		if !ok {
			return nil, nil
		}
		tag, text, _ := bytes.Cut(data, []byte("\n"))
		return &document{name, hostOf(c.settings.registryOf(name)), string(tag), text, sum, asked}, nil
	})
	return d
}

func hostOf(address string) string {
	u, _ := url.Parse(address) // was read before
	return u.Host
}

// document returns what the registry says, unless what is in the cache is fresh. asked
// tells that the registry was asked just now.
func (c *Client) document(ctx context.Context, name string) (d *document, asked bool, err error) {
	old := c.kept(name)
	if old != nil && (c.settings.offline || c.settings.preferOffline || time.Since(old.asked).Abs() < freshFor) {
		return old, false, nil
	}
	if c.settings.offline {
		return nil, false, &Error{Kind: Offline, Package: name, Reason: "npm is set to be offline, and it is not in the cache"}
	}
	d, err = c.ask(ctx, name)
	return d, true, err
}

// ask asks the registry, and keeps the answer if it makes sense.
func (c *Client) ask(ctx context.Context, name string) (*document, error) {
	return c.answers.do(name, func() (*document, error) {
		registry := c.settings.registryOf(name)
		q := request{address: addressOf(registry, name), accept: abbreviated, registry: registry, most: mostMetadata, spent: &c.documents, mostAll: mostAllMetadata, what: "documents"}
		if !c.by.before.IsZero() {
			q.accept = complete
		}
		old := c.kept(name)
		if old != nil {
			q.known = old.tag
		}
		c.log.Debug("asking for metadata", "package", name, "registry", hostOf(registry))
		d := &document{name: name, host: hostOf(registry), asked: time.Now()}
		err := c.get(ctx, q, func(header http.Header, body io.Reader) (err error) {
			d.tag = header.Get("ETag")
			d.text, err = io.ReadAll(body)
			return err
		})
		switch {
		case errors.Is(err, errUnchanged) && old != nil:
			touch(c.cache.sealed(metadata, c.keyOf(name)))
			return old, nil
		case err != nil:
			return nil, about(name, err)
		}
		if _, err := c.read(d); err != nil {
			return nil, err
		}
		if d.sum, err = c.cache.storeSealed(metadata, c.keyOf(name), slices.Concat([]byte(d.tag+"\n"), d.text)); err != nil {
			c.log.Warn("what a registry says was not kept", "package", name, "error", err)
		}
		return d, nil
	})
}
