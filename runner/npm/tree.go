package npm

import (
	"context"
	"errors"
	"net/url"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"
)

// A Package is one at its place in a tree.
type Package struct {
	// Path is where it lies below the folder of the tree, with slashes: "node_modules/a", or
	// "node_modules/a/node_modules/b".
	Path string
	// Name and Version are its own. The name is not that of the folder where an alias is.
	Name, Version string
	// Integrity is npm's: "sha512-" and the sum of the archive in base64.
	Integrity string

	sum     sum
	address string // of the archive
}

// A Tree is a package with all that it needs, each with its place.
type Tree struct {
	// Packages are sorted by their paths.
	Packages []Package
}

// Resolve finds the packages that one needs, for a version, a range or a tag, and their places.
// It fetches no archive.
func (c *Client) Resolve(ctx context.Context, name, text string) (*Tree, error) {
	return c.resolve(ctx, name, text, &budget{}, func(*manifest) {})
}

// resolve calls picked for each package that is likely to be in the tree, from several
// goroutines, and not after it has returned.
func (c *Client) resolve(ctx context.Context, name, text string, b *budget, picked func(*manifest)) (*Tree, error) {
	s, err := parseSpec(name, text)
	if err != nil {
		return nil, err
	}
	c.lookAhead(ctx, s, b, picked)
	made := builder{
		manifest:    func(ctx context.Context, s spec) (*manifest, error) { return c.manifest(ctx, s, b) },
		legacyPeers: c.settings.legacyPeers,
	}
	root, err := made.build(ctx, dependency{name, text})
	if err != nil {
		return nil, about(s.String(), err)
	}
	return c.tree(root)
}

// fetchTree resolves a package, and has all archives of the tree in the cache. It begins to fetch before
// the tree is known, since most of what may be in it will be.
func (c *Client) fetchTree(ctx context.Context, name, text string) (*Tree, *budget, error) {
	b := &budget{}
	all, fetching := errgroup.WithContext(ctx)
	tree, err := c.resolve(fetching, name, text, b, func(m *manifest) {
		if p, err := c.packageOf(m); err == nil {
			all.Go(func() error {
				_ = c.fetch(fetching, p, b) // whether it is needed is not known yet
				return nil
			})
		}
	})
	if err == nil {
		for _, p := range tree.Packages {
			all.Go(func() error { return c.fetch(fetching, p, b) })
		}
	}
	err = errors.Join(err, all.Wait())
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return tree, b, err
}

// lookAhead asks for what the package may need, all at once: the tree is made from one package
// after the other, and would wait for each. Errors are left to that.
func (c *Client) lookAhead(ctx context.Context, s spec, b *budget, picked func(*manifest)) {
	var all errgroup.Group
	var mu sync.Mutex
	seen := make(map[string]bool)
	system := thisPlatform()
	var look func(s spec)
	look = func(s spec) {
		mu.Lock()
		key := s.name + "@" + s.text
		known := seen[key] || len(seen) > mostPackages
		seen[key] = true
		mu.Unlock()
		if known {
			return
		}
		all.Go(func() error {
			m, err := c.manifest(ctx, s, b)
			if err != nil || !system.runs(m) {
				return nil //nolint:nilerr // see above
			}
			picked(m)
			n, err := newNode(m.Name, m, c.settings.legacyPeers)
			if err != nil {
				return nil //nolint:nilerr // see above
			}
			for _, e := range n.out {
				if e.kind != optionalPeer && !m.Bundled.has(e.name) {
					look(e.spec)
				}
			}
			return nil
		})
	}
	look(s)
	_ = all.Wait()
}

// tree lists what is below a root.
func (c *Client) tree(root *node) (*Tree, error) {
	t := &Tree{}
	for _, n := range root.all()[1:] {
		p, err := c.packageOf(n.manifest)
		if err != nil {
			return nil, err
		}
		p.Path = n.path()
		t.Packages = append(t.Packages, p)
	}
	t.sort()
	return t, nil
}

func (t *Tree) sort() {
	slices.SortFunc(t.Packages, func(a, b Package) int { return strings.Compare(a.Path, b.Path) })
}

var errNoSum = errors.New("the registry has no SHA-512 sum of it, by which it could be verified")

func (c *Client) packageOf(m *manifest) (Package, error) {
	p := Package{Name: m.Name, Version: m.Version}
	var ok bool
	if p.sum, ok = parseSum(m.Dist.Integrity); !ok {
		return p, &Error{Kind: Untrusted, Package: m.Name + "@" + m.Version, Reason: errNoSum.Error(), Err: errNoSum}
	}
	p.Integrity = p.sum.String()
	p.address = c.settings.archiveAt(m)
	return p, nil
}

// archiveAt is the address of an archive. Registries that stand for npm's hand out its
// addresses as they are: these are taken for their own, as npm does.
func (s *Settings) archiveAt(m *manifest) string {
	registry := s.registryOf(m.Name)
	u, err := url.Parse(m.Dist.Tarball)
	if err == nil && u.Host == hostOf(defaultRegistry) && hostOf(registry) != u.Host {
		return strings.TrimSuffix(registry, "/") + u.EscapedPath()
	}
	return m.Dist.Tarball
}
