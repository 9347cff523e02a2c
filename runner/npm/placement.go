package npm

import "slices"

// A placement puts a package into the tree, for an edge that has no good one, and after
// it the peers that came with it.
type placement struct {
	edge  *edge
	dep   *node // in a set of peers that was tried out
	outer *placement

	trial  *trial // at the place that was chosen; nil if there is none
	placed *node  // nil if nothing was
	inner  []*placement
	// failure is why the tree cannot be made.
	failure error
	// again are packages that have lost something they need.
	again []*node
}

// place looks for the highest place where nothing is in the way.
func place(p placement) *placement {
	if p.edge.to != nil && p.edge.valid() {
		return &p
	}
	var alone, whole *trial
	t := trial{dep: p.dep, edge: p.edge}
	if p.outer != nil {
		t.outer = p.outer.trial
	}
	for t.target = t.deepest(); t.target != nil; t.target = t.target.parent {
		if e := t.target.edge(p.edge.name); !t.target.top() && e != nil && e.peer() {
			continue
		}
		tried := try(t)
		if tried.self != conflict {
			alone = tried
		}
		if tried.whole == conflict {
			break
		}
		whole = tried
		if p.dep.failure != nil {
			break
		}
	}
	p.trial = whole
	if whole == nil {
		if p.ours() {
			p.failure = conflictError(p.edge)
			return &p
		}
		p.trial = alone // with peers that conflict: among others' packages they are accepted
	}
	if p.trial == nil {
		p.edge.conflicted = true
		return &p
	}
	p.put()
	return &p
}

func conflictError(e *edge) error {
	return &Error{Kind: Unsupported, Package: e.from.manifest.Name, Reason: "no version of " + e.spec.String() + " is good for all that need it beside them"}
}

// ours reports whether the package is asked for by the root, or is a peer of one that is.
func (p *placement) ours() bool {
	for p.outer != nil {
		p = p.outer
	}
	n := p.edge.from
	if n.top() || !p.edge.peer() {
		return n.top()
	}
	return slices.ContainsFunc(n.in, func(e *edge) bool { return !e.peer() && e.from.top() }) ||
		slices.ContainsFunc(peerSets(n), func(set peerSet) bool { return set.entry.from.top() })
}

func (p *placement) put() {
	target := p.trial.target
	if p.trial.whole == keeps || p.trial.whole == conflict && p.trial.self == keeps {
		if p.edge.peer() && !p.edge.valid() {
			p.edge.conflicted = true
		}
		prune(target, true)
		return
	}
	for n := target; !n.top(); n = n.parent {
		if n.same(p.dep) { // npm makes a link here, which counts for nothing if the package is left out in the end
			p.placed = &node{name: p.dep.name, manifest: p.dep.manifest, children: make(map[string]*node)}
			p.placed.failure = &Error{Kind: Unsupported, Package: n.manifest.Name + "@" + n.version(), Reason: "it needs itself below itself, by way of other versions of what needs it"}
			p.placed.put(target)
			return
		}
	}
	set := p.dep.parent
	p.placed = p.dep.copy()
	if old := target.children[p.edge.name]; old != nil {
		p.replace(old)
	} else {
		p.placed.put(target)
	}
	if p.edge.peer() && !p.edge.satisfiedBy(p.placed) {
		p.edge.conflicted = true
	}
	if p.edge.to != nil && p.edge.to != p.placed && p.edge.valid() {
		prune(p.edge.to, false)
	}
	for _, n := range target.root().all() {
		if n.name != p.edge.name || n.top() || !n.below(target) || n.root() != target.root() {
			continue
		}
		prune(n, false)
		if n.root() == target.root() {
			for _, kid := range n.sorted() {
				prune(kid, false)
			}
		}
	}
	p.putPeers(set)
}

// putPeers puts what the package needs beside it, as far as it is not there.
func (p *placement) putPeers(set *node) {
	if set == nil {
		return
	}
	for _, e := range slices.Clone(p.placed.out) {
		if !e.peer() || e.conflicted || e.valid() {
			continue
		}
		if dep := set.children[e.name]; dep != nil && e.satisfiedBy(dep) {
			p.inner = append(p.inner, place(placement{edge: e, dep: dep, outer: p}))
		}
	}
}

// replace puts the package where another version is, and removes what only that needed.
func (p *placement) replace(old *node) {
	target := old.parent
	var unneeded []*node
	for _, e := range old.out {
		if e.to != nil && p.placed.edge(e.name) == nil {
			to := e.to
			unneeded = append(unneeded, gather([]*node{to}, func(other *edge) bool { return other.to != to })...)
		}
	}
	var gone []*node
	for _, e := range old.in {
		if !e.peer() || e.conflicted || e.from.parent != target || e.satisfiedBy(p.placed) {
			continue
		}
		for _, set := range peerSets(e.from) {
			entry := set.entry.to
			if set.entry.from.top() {
				e.conflicted = true
				continue
			}
			gone = append(gone, gather([]*node{entry}, func(other *edge) bool { return other.to != entry && !other.conflicted })...)
		}
	}
	p.placed.replace(old)
	p.pruneAfter(unneeded)
	for _, n := range gone {
		for _, e := range n.in {
			p.again = addNode(p.again, e.from)
		}
		n.drop()
	}
}

// pruneAfter removes what the replaced package needed, and this one and all others do not.
func (p *placement) pruneAfter(unneeded []*node) {
	var bad []*node
	for _, e := range p.placed.out {
		if e.to != nil && !e.valid() {
			bad = addNode(bad, e.to)
		}
	}
	for _, n := range unneeded {
		for _, m := range gather([]*node{n}, func(e *edge) bool { return e.to != n && e.valid() }) {
			bad = addNode(bad, m)
		}
	}
	for _, n := range gather(bad, func(e *edge) bool { return e.from != p.placed && e.to != p.placed && e.valid() }) {
		n.drop()
	}
}

// prune removes a node that is spare, or else those below it.
func prune(n *node, descend bool) {
	if n.spare() {
		for _, gone := range gather([]*node{n}, func(e *edge) bool { return e.to != n && e.valid() }) {
			gone.drop()
		}
		return
	}
	if descend {
		for _, kid := range n.sorted() {
			prune(kid, true)
		}
	}
}
