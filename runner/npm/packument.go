package npm

import (
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"deps.dev/util/semver"
)

// A packument is npm's word for what a registry says of all versions of a package.
type packument struct {
	name     string
	host     string // of the registry
	tags     map[string]string
	versions map[string]json.RawMessage
	times    map[string]lenient[time.Time] // when versions were published; nil if that was not asked

	sorted func() []*semver.Version // descending

	manifests once[*manifest]
}

// mostVersions is more than any package has.
const mostVersions = 200_000

func readPackument(raw []byte, name, host string) (*packument, error) {
	var document struct {
		Tags     map[string]string             `json:"dist-tags"`
		Versions map[string]json.RawMessage    `json:"versions"`
		Time     map[string]lenient[time.Time] `json:"time"`
	}
	if err := json.Unmarshal(raw, &document); err != nil {
		return nil, &Error{Kind: Untrusted, Package: name, Reason: fmt.Sprintf("the answer of %s makes no sense: %s", host, oneLine(err)), Err: errManifest}
	}
	if len(document.Versions) > mostVersions {
		return nil, &Error{Kind: Untrusted, Package: name, Reason: fmt.Sprintf("%s says that it has %d versions; over %d are not read", host, len(document.Versions), mostVersions)}
	}
	p := &packument{name: name, host: host, tags: document.Tags, versions: document.Versions, times: document.Time}
	p.sorted = sync.OnceValue(p.sort)
	return p, nil
}

func (p *packument) sort() []*semver.Version {
	all := make([]*semver.Version, 0, len(p.versions))
	for text := range p.versions {
		if v, err := semver.NPM.Parse(text); err == nil {
			all = append(all, v)
		}
	}
	slices.SortFunc(all, func(a, b *semver.Version) int { return b.Compare(a) })
	return all
}

// manifest returns what is said of a version; nil without an error if there is none.
func (p *packument) manifest(version string) (*manifest, error) {
	raw, ok := p.versions[version]
	if !ok {
		return nil, nil
	}
	return p.manifests.do(version, func() (*manifest, error) { return readManifest(raw, p.name, version) })
}

// A choice is by what a version is chosen, besides the range.
type choice struct {
	node   string    // the version of Node; empty if that does not matter
	tag    string    // preferred if it is in the range
	before time.Time // nothing newer; zero for no bound
}

// pick chooses a version, as npm does.
func (p *packument) pick(s spec, by choice) (*manifest, error) {
	none := func() error {
		reason := p.host + " has no such version"
		if s.tag != "" {
			reason = p.host + " has no version with that tag"
		}
		if !by.before.IsZero() {
			reason += " from before " + by.before.Format(time.DateTime)
		}
		return &Error{Kind: NoVersion, Package: s.String(), Reason: reason}
	}
	if s.tag != "" {
		version := p.tags[s.tag]
		if version != "" && !p.early(version, by) {
			older, err := parseSpec(s.name, "<="+version)
			if err != nil {
				return nil, none()
			}
			return p.pick(older, by)
		}
		s.exact = version
	}
	if s.exact != "" || s.tag != "" {
		m, err := p.manifest(s.exact)
		if err == nil && (m == nil || !p.early(s.exact, by)) {
			err = none()
		}
		return m, err
	}
	if version, ok := p.tags[by.tag]; ok && s.matches(version) && p.early(version, by) {
		if m, err := p.manifest(version); err != nil || m != nil && m.nodeOK(by.node) && !m.warned() {
			return m, err
		}
	}
	m, err := p.best(s, by)
	if err == nil && m == nil {
		err = none()
	}
	return m, err
}

// best is the newest version of a range that is not deprecated and for this Node, or only the
// latter, or only the former, or neither.
func (p *packument) best(s spec, by choice) (*manifest, error) {
	var best *manifest
	rank := -1
	for _, v := range p.sorted() {
		if !s.allows(v) || !p.early(v.String(), by) {
			continue
		}
		m, err := p.manifest(v.String())
		if err != nil {
			return nil, err
		}
		if m == nil {
			continue
		}
		is := 0
		if m.nodeOK(by.node) {
			is += 2
		}
		if !m.warned() {
			is++
		}
		if is > rank {
			best, rank = m, is
		}
		if rank == 3 {
			break
		}
	}
	return best, nil
}

func (p *packument) early(version string, by choice) bool {
	return by.before.IsZero() || !p.times[version].is.After(by.before)
}
