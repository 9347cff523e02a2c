package npm

import (
	"path"
	"slices"
	"strings"
)

// kind is what a dependency is.
type kind int

const (
	required kind = iota
	optional
	peer
	optionalPeer
)

// An edge leads from a package to one that it depends on, where that is found.
type edge struct {
	name string // under which it is looked for
	kind kind
	spec spec
	from *node
	to   *node // nil if there is none
	// conflicted tells that another version is accepted for a peer.
	conflicted bool
}

func (e *edge) peer() bool     { return e.kind == peer || e.kind == optionalPeer }
func (e *edge) optional() bool { return e.kind == optional || e.kind == optionalPeer }

// valid reports whether what is found will do. A peer has to be beside or above.
func (e *edge) valid() bool {
	switch {
	case e.to == nil:
		return e.optional()
	case e.peer() && e.from == e.to.parent && !e.from.top():
		return false
	}
	return e.satisfiedBy(e.to)
}

func (e *edge) satisfiedBy(n *node) bool {
	return n.name == e.name && (e.spec.any() || n.version() != "" && e.spec.matches(n.version()))
}

// A node is a package at a place: the folder node_modules of its parent.
type node struct {
	name     string // of its folder
	manifest *manifest
	failure  error // why it could not be had; it has no manifest then, unless npm would make a link

	parent   *node
	children map[string]*node
	out      []*edge
	in       []*edge

	// stands is the package that a node without a place stands for: a set of peers is
	// tried out below a copy of the package that asks for one of them.
	stands *node
}

func newNode(name string, m *manifest, legacyPeers bool) (*node, error) {
	n := &node{name: name, manifest: m, children: make(map[string]*node)}
	if m == nil {
		return n, nil
	}
	for _, of := range []struct {
		kind kind
		deps dependencies
	}{{peer, m.Peers}, {optionalPeer, m.Peers}, {required, m.Dependencies}, {optional, m.Optional}} {
		for _, d := range of.deps {
			k := of.kind
			if k == peer || k == optionalPeer {
				if legacyPeers || m.mayLack(d.name) != (k == optionalPeer) {
					continue
				}
			}
			if err := n.depend(k, d); err != nil {
				return nil, err
			}
		}
	}
	return n, nil
}

// depend adds an edge. A later one of the same name stands in place of the earlier.
func (n *node) depend(k kind, d dependency) error {
	s, err := parseSpec(d.name, d.text)
	if err != nil {
		if k == optional || k == optionalPeer {
			return nil // as if it could not be had
		}
		return about(n.manifest.Name, err)
	}
	n.out = slices.DeleteFunc(n.out, func(e *edge) bool { return e.name == d.name })
	n.out = append(n.out, &edge{name: d.name, kind: k, spec: s, from: n})
	return nil
}

// standIn returns a copy of a node without its place, which has nothing below it yet.
func (n *node) standIn() *node {
	c := &node{name: n.name, manifest: n.manifest, children: make(map[string]*node), stands: n}
	for _, e := range n.out {
		c.out = append(c.out, &edge{name: e.name, kind: e.kind, spec: e.spec, from: c})
	}
	return c
}

// copy returns the package of a node, for another place.
func (n *node) copy() *node {
	c := n.standIn()
	c.stands, c.failure = nil, n.failure
	return c
}

func (n *node) version() string {
	if n.manifest == nil {
		return ""
	}
	return n.manifest.Version
}

func (n *node) top() bool { return n.parent == nil }

func (n *node) root() *node {
	for n.parent != nil {
		n = n.parent
	}
	return n
}

func (n *node) depth() (depth int) {
	for ; n.parent != nil; n = n.parent {
		depth++
	}
	return depth
}

// path is where the package lies below the folder of the root.
func (n *node) path() string {
	if n.parent == nil {
		return ""
	}
	return path.Join(n.parent.path(), "node_modules", n.name)
}

func (n *node) edge(name string) *edge {
	for _, e := range n.out {
		if e.name == name {
			return e
		}
	}
	return nil
}

// find returns what a package finds under a name.
func (n *node) find(name string) *node {
	for ; n != nil; n = n.parent {
		if c := n.children[name]; c != nil {
			return c
		}
	}
	return nil
}

// below reports whether a node is another one or below it.
func (n *node) below(other *node) bool {
	for ; n != nil; n = n.parent {
		if n == other {
			return true
		}
	}
	return false
}

// sorted are the nodes below, by name.
func (n *node) sorted() []*node {
	all := make([]*node, 0, len(n.children))
	for _, c := range n.children {
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b *node) int { return compareNames(a.name, b.name) })
	return all
}

// all returns a node and those below it, each before those below it.
func (n *node) all() []*node {
	return reach([]*node{n}, func(n *node, add func(*node)) {
		for _, c := range n.sorted() {
			add(c)
		}
	})
}

// reach returns nodes and all that more adds for them, in this order.
func reach(from []*node, more func(n *node, add func(*node))) []*node {
	var set []*node
	known := make(map[*node]bool)
	add := func(n *node) {
		if !known[n] {
			known[n] = true
			set = append(set, n)
		}
	}
	for _, n := range from {
		add(n)
	}
	for i := 0; i < len(set); i++ {
		more(set[i], add)
	}
	return set
}

// put places a node below a parent, in place of one that has its name.
func (n *node) put(parent *node) {
	n.drop()
	if old := parent.children[n.name]; old != nil {
		old.drop()
	}
	n.parent = parent
	parent.children[n.name] = n
	n.moved(parent)
}

// drop takes a node from its place, with all below it.
func (n *node) drop() {
	parent := n.parent
	if parent == nil {
		return
	}
	delete(parent.children, n.name)
	n.parent = nil
	n.moved(parent)
}

// moved finds anew what changes with a node that has come below a parent, or gone from there.
func (n *node) moved(parent *node) {
	parent.look(n.name)
	for _, below := range n.all() {
		for _, e := range below.out {
			e.find()
		}
	}
}

// replace puts a node where another is, with those that were below that.
func (n *node) replace(old *node) {
	parent, kids := old.parent, old.sorted()
	n.put(parent)
	for _, kid := range kids {
		kid.put(n)
	}
}

// look finds anew what packages from here on down find under a name.
func (n *node) look(name string) {
	if e := n.edge(name); e != nil {
		e.find()
	}
	for _, c := range n.children {
		if c.children[name] == nil {
			c.look(name)
		}
	}
}

func (e *edge) find() {
	to := e.from.find(e.name)
	if to == e.to {
		return
	}
	if e.to != nil {
		e.to.in = slices.DeleteFunc(e.to.in, func(other *edge) bool { return other == e })
	}
	e.to = to
	if to != nil {
		to.in = append(to.in, e)
	}
}

// same reports whether two nodes are the same package, under the same name.
func (n *node) same(other *node) bool {
	if n == other {
		return true
	}
	return n.name == other.name && n.manifest != nil && other.manifest != nil &&
		n.manifest.Name == other.manifest.Name && n.manifest.Version == other.manifest.Version
}

// compare orders the versions of two nodes.
func (n *node) compare(other *node) int { return Compare(n.version(), other.version()) }

// canReplace reports whether all that need other would find n good, but for what
// would go with it. Edges of peers that are replaced as well do not count.
func (n *node) canReplace(other *node, peers map[string]*node) bool {
	if n.name != other.name || n.manifest == nil || other.manifest == nil || n.manifest.Name != other.manifest.Name {
		return false
	}
	gone := gather([]*node{other}, func(e *edge) bool { return e.to != other && e.valid() })
	for _, e := range other.in {
		if peers[e.from.name] != nil && !other.top() && e.from.parent == other.parent && e.peer() {
			continue
		}
		if !slices.Contains(gone, e.from) && !e.satisfiedBy(n) {
			return false
		}
	}
	return true
}

// spare reports whether a node may go, for all that find it would find another as good
// further up.
func (n *node) spare() bool {
	if n.parent == nil || n.parent.parent == nil {
		return false
	}
	other := n.parent.parent.find(n.name)
	return len(n.in) == 0 || other != nil && (other.same(n) || other.canReplace(n, nil) && other.compare(n) >= 0)
}

// gather returns nodes and all that nothing else needs than they, by the edges of a filter.
func gather(nodes []*node, filter func(*edge) bool) []*node {
	set := reach(nodes, func(n *node, add func(*node)) {
		for _, e := range n.out {
			if e.to != nil && filter(e) {
				add(e.to)
			}
		}
	})
	known := make(map[*node]bool)
	for _, n := range set {
		known[n] = true
	}
	for before := -1; before != len(set); {
		before = len(set)
		set = slices.DeleteFunc(set, func(n *node) bool {
			known[n] = !slices.ContainsFunc(n.in, func(e *edge) bool { return !known[e.from] && filter(e) })
			return !known[n]
		})
	}
	return set
}

// compareNames orders names as npm does, by the rules of English: letters regardless of
// case, and signs before digits before letters.
func compareNames(a, b string) int {
	if c := strings.Compare(collated(a), collated(b)); c != 0 {
		return c
	}
	return -strings.Compare(a, b) // small letters first
}

// signs are those of names, in the order of the Unicode collation.
const signs = "_-,;:!?.'\"()[]{}@*/\\&#%`^+<=>|~$"

func collated(text string) string {
	out := make([]byte, 0, len(text))
	for i := range len(text) {
		c := text[i]
		switch at := strings.IndexByte(signs, c); {
		case at >= 0:
			out = append(out, byte(at+1)) //nolint:gosec // there are few signs
		case c >= 'A' && c <= 'Z':
			out = append(out, c+'a'-'A')
		default:
			out = append(out, c)
		}
	}
	return string(out)
}
