package npm

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

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
	// Address is that of the archive.
	Address string
}

// A Tree is a package with all that it needs, each with its place.
type Tree struct {
	// Packages are sorted by their paths.
	Packages []Package
}

// Sum is one of all packages and their places.
func (t *Tree) Sum() string {
	h := sha256.New()
	for _, p := range t.Packages {
		_, _ = fmt.Fprintf(h, "%s %s@%s %s\n", p.Path, p.Name, p.Version, p.Integrity)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// Resolve finds the packages that one needs, for a version, a range or a tag, and their places.
// It fetches no archive.
func (c *Client) Resolve(ctx context.Context, name, text string) (*Tree, error) {
	return c.resolve(ctx, name, text, func(Package) {})
}

// resolve calls picked for each package that is likely to be in the tree, from several
// goroutines, and not after it has returned.
func (c *Client) resolve(ctx context.Context, name, text string, picked func(Package)) (*Tree, error) {
	s, err := parseSpec(name, text)
	if err != nil {
		return nil, err
	}
	key := c.treeKey(name, text)
	if tree, ok := c.recall(ctx, key); ok {
		return tree, nil
	}
	c.lookAhead(ctx, s, picked)
	made := builder{manifest: c.manifest, legacyPeers: c.settings.legacyPeers, forNode: c.by.node}
	root, err := made.build(ctx, dependency{name, text})
	if err != nil {
		return nil, about(s.String(), err)
	}
	tree, err := c.tree(root)
	if err == nil {
		c.remember(key, tree)
	}
	return tree, err
}

// resolved is a tree, and the documents that it follows from: their sums, by name.
type resolved struct {
	Tree      *Tree
	Documents map[string][]byte
}

// treeKey says all that a tree depends on besides documents.
func (c *Client) treeKey(name, text string) string {
	s := &c.settings
	return fmt.Sprintf("tree 3 %q %q %q %q %q %v %q %v", name, text, s.registry, s.scopes, c.by.tag, s.legacyPeers, c.by.node, thisPlatform())
}

// recall returns the tree as it was resolved before, if the registry still says the same of all packages that were chosen
// among: to ask is much less work than to read what it says.
func (c *Client) recall(ctx context.Context, key string) (*Tree, bool) {
	var known resolved
	raw, ok := c.Made(key)
	if !ok || !c.by.before.IsZero() || json.Unmarshal(raw, &known) != nil {
		return nil, false
	}
	var all errgroup.Group
	for name, sum := range known.Documents {
		all.Go(func() error {
			d, _, err := c.document(ctx, name)
			if err == nil && !bytes.Equal(d.sum, sum) {
				err = errSum
			}
			return err
		})
	}
	return known.Tree, all.Wait() == nil
}

func (c *Client) remember(key string, tree *Tree) {
	known := resolved{tree, make(map[string][]byte)}
	c.used.Range(func(name, d any) bool {
		known.Documents[name.(string)] = d.(*document).sum //nolint:forcetypeassert // see used
		return true
	})
	if raw, err := json.Marshal(known); err == nil && c.by.before.IsZero() {
		c.Keep(key, raw)
	}
}

// lookAhead asks for what the package may need, all at once: the tree is made from one package
// after the other, and would wait for each. Errors are left to that.
func (c *Client) lookAhead(ctx context.Context, s spec, picked func(Package)) {
	var all errgroup.Group
	var seen sync.Map
	var count atomic.Int64
	system := thisPlatform()
	var look func(s spec)
	look = func(s spec) {
		if _, known := seen.LoadOrStore(s.name+"@"+s.text, true); known || count.Add(1) > mostPackages {
			return
		}
		all.Go(func() error {
			m, err := c.manifest(ctx, s)
			if err != nil || !system.runs(m) {
				return nil //nolint:nilerr // see above
			}
			if p, err := c.packageOf(m); err == nil {
				picked(p)
			}
			n, err := newNode(m.Name, m, c.settings.legacyPeers)
			if err != nil {
				return nil //nolint:nilerr // see above
			}
			for _, e := range n.out {
				if e.kind != optionalPeer && !m.brings(e.name) {
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
	s, ok := parseSum(m.Dist.Integrity)
	if !ok {
		return Package{}, &Error{Kind: Untrusted, Package: m.Name + "@" + m.Version, Reason: errNoSum.Error(), Err: errNoSum}
	}
	return Package{Name: m.Name, Version: m.Version, Integrity: s.String(), Address: c.settings.archiveAt(m.Name, m.Dist.Tarball)}, nil
}

// archiveAt is the address of an archive. Registries that stand for npm's hand out its
// addresses as they are: these are taken for their own, as npm does.
func (s *Settings) archiveAt(name, address string) string {
	registry := s.registryOf(name)
	u, err := url.Parse(address)
	if err == nil && u.Host == hostOf(defaultRegistry) && hostOf(registry) != u.Host {
		return strings.TrimSuffix(registry, "/") + u.EscapedPath()
	}
	return address
}
