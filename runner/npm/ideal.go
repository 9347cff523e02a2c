package npm

import (
	"cmp"
	"context"
	"fmt"
	"slices"
)

const (
	// mostPackages is more than any adaptor needs.
	mostPackages = 5000
	// mostVisits is how often each package is looked at: a new look at one can make another
	// one necessary, in circles.
	mostVisits, moreVisits = 10, 500
)

// A builder makes the tree of a package and of all that it needs.
type builder struct {
	manifest    func(ctx context.Context, s spec) (*manifest, error)
	legacyPeers bool
	forNode     string // the version of Node; empty if that does not matter

	root  *node
	queue []*node
	seen  map[*node]bool
	// sets are those of peers that were tried out last, by the package that asked.
	sets   map[*node]*node
	made   int
	visits int
}

// build returns the root: a folder that asks for one package, with the tree below it.
func (b *builder) build(ctx context.Context, d dependency) (*node, error) {
	wish := &manifest{Name: "the folder", Dependencies: dependencies{d}}
	root, err := newNode("", wish, false)
	if err != nil {
		return nil, err
	}
	b.root, b.queue = root, []*node{root}
	b.seen, b.sets = make(map[*node]bool), make(map[*node]*node)
	for len(b.queue) > 0 {
		if err := context.Cause(ctx); err != nil {
			return nil, err
		}
		n := b.next()
		if b.seen[n] || n.root() != b.root {
			continue
		}
		b.seen[n] = true
		if b.visits++; b.visits > moreVisits && b.visits > moreVisits+mostVisits*len(b.root.all()) {
			return nil, &Error{Kind: Unsupported, Reason: "what it needs goes round in circles: each version of one package asks for another one of the next"}
		}
		if err := b.meet(ctx, n); err != nil {
			return nil, err
		}
	}
	return b.root, b.leaveOut(thisPlatform())
}

// next takes the package that is highest, of those by its path.
func (b *builder) next() *node {
	at := 0
	for i, n := range b.queue {
		first := b.queue[at]
		if c := cmp.Or(cmp.Compare(n.depth(), first.depth()), compareNames(n.path(), first.path())); c < 0 {
			at = i
		}
	}
	n := b.queue[at]
	b.queue = slices.Delete(b.queue, at, at+1)
	return n
}

func (b *builder) enqueue(n *node) { b.queue = addNode(b.queue, n) }

// lacking are the edges of a package that need something done.
func (b *builder) lacking(n *node) []*edge {
	var found []*edge
	for _, e := range n.out {
		switch {
		case n.manifest.brings(e.name) && !n.top(), e.conflicted, e.to != nil && e.to.failure != nil:
		case e.to == nil && e.kind != optionalPeer, e.to != nil && !e.valid():
			found = append(found, e)
		}
	}
	return found
}

// meet puts what a package needs into the tree.
func (b *builder) meet(ctx context.Context, n *node) error {
	type task struct {
		edge *edge
		dep  *node
	}
	var tasks []task
	for _, e := range b.lacking(n) {
		set := b.set(n, true)
		var dep, parent *node
		if tried := set.edge(e.name); tried != nil && tried.to != nil && tried.valid() && e.satisfiedBy(tried.to) {
			dep = tried.to
		}
		if dep == nil && e.kind == optionalPeer {
			dep = hoistable(e)
		}
		if dep == nil {
			if e.peer() {
				parent = set
			}
			var err error
			if dep, err = b.fetch(ctx, e, parent, nil, map[*node]bool{e.from: true}); err != nil {
				return err
			}
		}
		tasks = append(tasks, task{e, dep})
	}
	slices.SortStableFunc(tasks, func(x, y task) int { return compareNames(x.edge.name, y.edge.name) })
	for _, t := range tasks {
		if err := b.placed(place(placement{edge: t.edge, dep: t.dep})); err != nil {
			return err
		}
	}
	return nil
}

// hoistable is a package further down that an optional peer could share.
func hoistable(e *edge) *node {
	start := e.from.parent
	if start == nil {
		start = e.from
	}
	for _, n := range start.all()[1:] {
		if n.name == e.name && e.satisfiedBy(n) {
			return n
		}
	}
	return nil
}

// placed looks at what a placement has changed: some packages need another look.
func (b *builder) placed(p *placement) error {
	if p.failure != nil {
		return p.failure
	}
	if n := p.placed; n != nil {
		for _, e := range n.in {
			if e == p.edge || e.conflicted || e.valid() {
				continue
			}
			delete(b.seen, e.from)
			b.enqueue(e.from)
		}
		b.enqueue(n)
		for _, again := range p.again {
			delete(b.seen, again)
			b.enqueue(again)
		}
	}
	for _, inner := range p.inner {
		if err := b.placed(inner); err != nil {
			return err
		}
	}
	return nil
}

// set returns a stand-in for a package, below which what it asks for is tried out with its
// peers: the latest one, or one that is new and empty.
func (b *builder) set(of *node, latest bool) *node {
	if found := b.sets[of]; found != nil && latest {
		return found
	}
	set := of.standIn()
	b.sets[of] = set
	return set
}

// fetch gets the package of an edge, and puts it with its peers below parent, which is a
// stand-in for who asks. Of two edges, a version that is good for both is taken. wanted
// are the packages that have to be there.
func (b *builder) fetch(ctx context.Context, e *edge, parent *node, second *edge, wanted map[*node]bool) (*node, error) {
	if parent == nil {
		parent = b.set(e.from, false)
	}
	n, err := b.node(ctx, e, parent)
	if err != nil {
		return nil, err
	}
	if second != nil && !second.valid() {
		other, err := b.node(ctx, second, parent)
		if err != nil {
			return nil, err
		}
		if e.valid() {
			n = other
		}
	}
	if n.parent != parent {
		n.put(parent)
	}
	if wanted[e.from] && e.kind != optionalPeer || second != nil && wanted[second.from] && second.kind != optionalPeer {
		wanted[n] = true
	}
	return n, b.fetchPeers(ctx, n, wanted)
}

// node is the package of an edge, below parent.
func (b *builder) node(ctx context.Context, e *edge, parent *node) (*node, error) {
	if b.made++; b.made > 4*mostPackages {
		return nil, &Error{Kind: Untrusted, Reason: fmt.Sprintf("it needs more than %d packages", mostPackages)}
	}
	m, err := b.manifest(ctx, e.spec)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	var n *node
	if err == nil {
		n, err = newNode(e.name, m, b.legacyPeers)
	}
	if err != nil {
		if n, _ = newNode(e.name, nil, false); e.from.stands == b.root || e.from == b.root {
			return nil, err
		}
		n.failure = err
	}
	n.put(parent)
	return n, nil
}

// fetchPeers puts the peers of a package beside it, as far as they are not there or not good.
func (b *builder) fetchPeers(ctx context.Context, n *node, wanted map[*node]bool) error {
	var edges []*edge
	for _, e := range n.out {
		if e.peer() && (e.to == nil || !e.valid()) {
			edges = append(edges, e)
		}
	}
	slices.SortFunc(edges, func(x, y *edge) int { return compareNames(x.name, y.name) })
	for _, e := range edges {
		set := n.parent
		if set == nil {
			return nil
		}
		if e.to != nil && e.valid() {
			continue
		}
		if err := b.fetchPeer(ctx, e, set, wanted); err != nil {
			return err
		}
	}
	return nil
}

func (b *builder) fetchPeer(ctx context.Context, e *edge, set *node, wanted map[*node]bool) error {
	own := set.edge(e.name) // of the package that asked
	lenient := set.stands != b.root
	if e.to == nil {
		if own == nil {
			_, err := b.fetch(ctx, e, set, nil, wanted)
			return err
		}
		dep, err := b.fetch(ctx, own, set, e, wanted)
		if err != nil || e.valid() {
			return err
		}
		if lenient || !wanted[dep] {
			e.conflicted = true
			return nil
		}
		return conflictError(e)
	}
	current := e.to
	dep, err := b.fetch(ctx, e, nil, nil, wanted)
	if err != nil {
		return err
	}
	if dep.canReplace(current, nil) {
		_, err := b.fetch(ctx, e, set, nil, wanted)
		return err
	}
	if lenient || !wanted[e.from] {
		return nil
	}
	return conflictError(e)
}

// leaveOut removes what is optional and cannot be had, or is for another system or Node, with what only that
// needs. The error is about what is not, or would be a link.
func (b *builder) leaveOut(system platform) error {
	all := b.root.all()[1:]
	needed := map[*node]bool{b.root: true}
	reached := map[*node]bool{b.root: true} // by more than edges of optional peers
	for walk := []*node{b.root}; len(walk) > 0; {
		n := walk[len(walk)-1]
		walk = walk[:len(walk)-1]
		for _, e := range n.out {
			if e.to == nil || reached[e.to] && (needed[e.to] || !needed[n] || e.optional()) || e.kind == optionalPeer && !reached[e.to] {
				continue
			}
			reached[e.to] = true
			if needed[n] && !e.optional() {
				needed[e.to] = true
			}
			walk = append(walk, e.to)
		}
	}
	for _, n := range all {
		if n.root() != b.root {
			continue
		}
		fits := n.manifest != nil && system.runs(n.manifest)
		good := fits && n.manifest.nodeOK(b.forNode)
		switch {
		case n.failure != nil && (needed[n] || good):
			return n.failure
		case n.failure == nil && needed[n] && !fits:
			return &Error{Kind: Unsupported, Package: n.manifest.Name + "@" + n.version(), Reason: fmt.Sprintf("it is not for this system (%s, %s)", system.os, system.cpu)}
		case n.failure != nil, !needed[n] && !good:
			without(n)
		}
	}
	if left := len(b.root.all()) - 1; left > mostPackages {
		return &Error{Kind: Untrusted, Reason: fmt.Sprintf("it needs more than %d packages", mostPackages)}
	}
	return nil
}

// without removes an optional package, those that need it, and what only they need.
func without(n *node) {
	set := reach([]*node{n}, func(n *node, add func(*node)) {
		for _, e := range n.in {
			if !e.optional() {
				add(e.from)
			}
		}
	})
	for _, gone := range gather(set, func(e *edge) bool { return !slices.Contains(set, e.to) }) {
		gone.drop()
	}
}
