package npm

import "slices"

// verdict is what comes of putting a package somewhere.
type verdict int

const (
	untold   verdict = iota
	conflict         // it cannot go there
	free             // nothing is in the way
	replaces         // it takes the place of another version
	keeps            // what is there will do
)

// A trial finds out whether a package can go below a target, together with the peers that
// it needs. It changes nothing.
type trial struct {
	dep    *node
	edge   *edge
	target *node
	outer  *trial  // of the package that this one is a peer of
	along  []*node // packages under trial, from the outermost

	current *node   // of that name, in the target
	self    verdict // for the package alone
	whole   verdict // with its peers
	tried   bool
}

func try(t trial) *trial {
	t.current = t.target.children[t.edge.name]
	t.whole = t.decide()
	if t.self == untold {
		t.self = t.whole
	}
	return &t
}

// outermost is the trial that began the others.
func (t *trial) outermost() *trial {
	for t.outer != nil {
		t = t.outer
	}
	return t
}

func (t *trial) decide() verdict {
	wished := t.target.edge(t.edge.name) // its own
	switch {
	case t.dep.failure != nil && t.current != nil:
		return replaces
	case t.dep.failure != nil:
		return free
	case wished != nil && wished.peer() && !t.target.top():
		return conflict // a peer does not go below who needs it
	case t.current == nil && wished != nil && wished != t.edge && !wished.satisfiedBy(t.dep):
		return conflict
	case t.current == nil:
		return t.besideNothing()
	}
	return t.besideCurrent()
}

// besideNothing decides for a target that has no such package, and may find another one
// further up, which others below it rely on.
func (t *trial) besideNothing() verdict {
	if t.target != t.outermost().edge.from {
		if found := t.target.find(t.edge.name); found != nil {
			for _, e := range found.in {
				if e.from.below(t.target) && e.valid() && !e.satisfiedBy(t.dep) {
					return conflict
				}
			}
		}
	}
	return t.withPeers(free)
}

// besideCurrent decides for a target that has another version, or the same.
func (t *trial) besideCurrent() verdict {
	good := t.edge.satisfiedBy(t.current)
	if t.dep.same(t.current) && (good || !t.edge.satisfiedBy(t.dep)) {
		return keeps
	}
	newer := t.dep.version() != "" && t.current.version() != "" && t.dep.compare(t.current) >= 0
	if newer && t.dep.canReplace(t.current, nil) {
		if v := t.withPeers(replaces); v != conflict {
			return v
		}
	}
	if good {
		return keeps
	}
	if t.edge.peer() && !newer && t.dep.canReplace(t.current, nil) {
		if v := t.withPeers(replaces); v != conflict {
			return v
		}
	}
	switch {
	case t.target != t.deepest():
		return conflict // it can go deeper
	case !t.edge.peer() && t.target == t.edge.from:
		return t.withPeers(replaces) // it must go here
	case t.outer == nil && !t.edge.peer():
		return conflict
	case t.displaces():
		return t.withPeers(replaces)
	}
	return conflict
}

// displaces reports whether the sets of peers that the current package is in can make way
// for the one that is tried, or go deeper.
func (t *trial) displaces() bool {
	can := true
	for _, set := range peerSets(t.current) {
		entry := set.entry.to
		if set.entry == t.edge || set.entry == t.outermost().edge {
			continue
		}
		var instead *node
		var others map[string]*node
		if t.dep.parent != nil {
			others = t.dep.parent.children
			instead = others[entry.name]
		}
		if instead != nil {
			if instead.canReplace(entry, others) {
				continue
			}
		} else if overrides(entry, others) {
			continue
		}
		for _, member := range set.members {
			place := deepestPlace(set.entry.from, member.name)
			if place == t.target || t.target.below(place) {
				can = false
				break
			}
		}
	}
	return can
}

// overrides reports whether all peers that a package leads to would take the versions of
// another set.
func overrides(entry *node, others map[string]*node) bool {
	all := true
	reach([]*node{entry}, func(n *node, add func(*node)) {
		for _, e := range n.out {
			switch other := others[e.name]; {
			case !e.peer() || !e.valid():
			case other != nil:
				all = all && e.satisfiedBy(other)
			case e.to != nil:
				add(e.to)
			}
		}
	})
	return all
}

// withPeers is v if the peers can be where the package would be.
func (t *trial) withPeers(v verdict) verdict {
	t.self = v
	if t.tried {
		return t.whole
	}
	t.tried, t.whole = true, v
	along := append(append([]*node{}, t.along...), t.dep)
	for _, e := range t.dep.out {
		if !e.peer() || e.to == nil || slices.Contains(along, e.to) {
			continue
		}
		if try(trial{dep: e.to, edge: e, target: deepestPlace(t.target, e.name), outer: t, along: along}).whole == conflict {
			t.whole = conflict
		}
	}
	return t.whole
}

// deepest is the deepest place where the package could go.
func (t *trial) deepest() *node {
	start := t.edge.from
	if t.outer != nil {
		start = t.outer.deepest()
	}
	return deepestPlace(start, t.edge.name)
}

// deepestPlace is the first node, from start upwards, below which something of that name may go.
func deepestPlace(start *node, name string) *node {
	for n := start; ; n = n.parent {
		if e := n.edge(name); n.parent == nil || e == nil || !e.peer() {
			return n
		}
	}
}

// A peerSet is what has to be together, and the edge through which it is needed.
type peerSet struct {
	entry   *edge
	members []*node
}

// peerSets are those that a package is in.
func peerSets(n *node) []peerSet {
	union := reach([]*node{n}, func(n *node, add func(*node)) {
		addPeers(n, add)
		for _, e := range n.in {
			if e.peer() && e.valid() {
				add(e.from)
			}
		}
	})
	var sets []peerSet
	for _, member := range union {
		for _, e := range member.in {
			if !e.valid() || e.peer() && !e.from.top() {
				continue
			}
			if members := withPeers(member); slices.Contains(members, n) {
				sets = append(sets, peerSet{e, members})
			}
		}
	}
	return sets
}

// withPeers is a package with the peers that it needs, and those that they need.
func withPeers(n *node) []*node { return reach([]*node{n}, addPeers) }

func addPeers(n *node, add func(*node)) {
	for _, e := range n.out {
		if e.to != nil && e.peer() && e.valid() {
			add(e.to)
		}
	}
}

func addNode(nodes []*node, n *node) []*node {
	if slices.Contains(nodes, n) {
		return nodes
	}
	return append(nodes, n)
}
