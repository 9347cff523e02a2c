package npm

import (
	"bytes"
	"encoding/json"
	"errors"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"deps.dev/util/semver"
)

// A manifest is what a registry says of one version, as far as it matters here.
type manifest struct {
	Name         string                                               `json:"name"`
	Version      string                                               `json:"version"`
	Dependencies dependencies                                         `json:"dependencies"`
	Optional     dependencies                                         `json:"optionalDependencies"`
	Peers        dependencies                                         `json:"peerDependencies"`
	PeersMeta    lenient[map[string]lenient[struct{ Optional bool }]] `json:"peerDependenciesMeta"`
	Bundled      lenient[any]                                         `json:"bundleDependencies"`
	Engines      lenient[struct{ Node string }]                       `json:"engines"`
	Deprecated   lenient[any]                                         `json:"deprecated"`
	OS           list                                                 `json:"os"`
	CPU          list                                                 `json:"cpu"`
	Libc         list                                                 `json:"libc"`
	Dist         struct {
		Tarball   string `json:"tarball"`
		Integrity string `json:"integrity"`
	} `json:"dist"`
}

// A dependency is a name and what is asked for under it.
type dependency struct{ name, text string }

// dependencies keep the order of the document, in which npm looks at them.
type dependencies []dependency

// Documents of registries have all kinds of nonsense in them, which npm reads as nothing.
func (d *dependencies) UnmarshalJSON(raw []byte) error {
	*d = nil
	decoder := json.NewDecoder(bytes.NewReader(raw))
	if token, err := decoder.Token(); err != nil || token != json.Delim('{') {
		return err
	}
	for decoder.More() {
		name, err := decoder.Token()
		if err != nil {
			return err
		}
		var value any
		if err := decoder.Decode(&value); err != nil {
			return err
		}
		if text, ok := value.(string); ok {
			*d = append(*d, dependency{name.(string), text}) //nolint:forcetypeassert // keys are strings
		}
	}
	return nil
}

// lenient is a T, or as much of one as the document has.
type lenient[T any] struct{ is T }

func (l *lenient[T]) UnmarshalJSON(raw []byte) error {
	var is T
	_ = json.Unmarshal(raw, &is)
	l.is = is
	return nil
}

// mayLack reports whether a peer is an optional one.
func (m *manifest) mayLack(peer string) bool { return m.PeersMeta.is[peer].is.Optional }

// brings reports whether a package has another one in its archive.
func (m *manifest) brings(name string) bool {
	all, _ := m.Bundled.is.(bool)
	some, _ := m.Bundled.is.([]any)
	return all || slices.Contains(some, any(name))
}

// warned tells that there is a warning of the version. An empty one takes it back.
func (m *manifest) warned() bool {
	return m.Deprecated.is != nil && m.Deprecated.is != "" && m.Deprecated.is != false
}

// list is a list of words, or one word.
type list []string

func (l *list) UnmarshalJSON(raw []byte) error {
	*l = nil
	var one lenient[string]
	var several lenient[[]lenient[string]]
	_, _ = one.UnmarshalJSON(raw), several.UnmarshalJSON(raw)
	for _, word := range append(several.is, one) {
		if word.is != "" {
			*l = append(*l, word.is)
		}
	}
	return nil
}

// admits reports whether the list, in which ! refuses a word, has a word.
func (l list) admits(word string) bool {
	if len(l) == 0 || len(l) == 1 && l[0] == "any" {
		return true
	}
	refusals := 0
	for _, w := range l {
		if refused, ok := strings.CutPrefix(w, "!"); ok {
			if refused == word {
				return false
			}
			refusals++
		}
	}
	return slices.Contains(l, word) || refusals == len(l)
}

// platform is the system that packages are for, in npm's words.
type platform struct{ os, cpu, libc string }

func thisPlatform() platform {
	p := platform{os: runtime.GOOS, cpu: runtime.GOARCH}
	switch p.cpu {
	case "amd64":
		p.cpu = "x64"
	case "386":
		p.cpu = "ia32"
	}
	if p.os == "linux" {
		p.libc = "glibc"
		if found, _ := filepath.Glob("/lib/ld-musl-*.so.1"); len(found) > 0 { // where no other C library has its loader
			p.libc = "musl"
		}
	}
	return p
}

// runs reports whether a package is for the system.
func (p platform) runs(m *manifest) bool {
	return m.OS.admits(p.os) && m.CPU.admits(p.cpu) && (p.libc == "" || m.Libc.admits(p.libc))
}

// nodeOK reports whether a package is for a version of Node; none is known when it is empty.
func (m *manifest) nodeOK(node string) bool {
	if node == "" || m.Engines.is.Node == "" {
		return true
	}
	ranges, err := parseRange(m.Engines.is.Node)
	if err != nil {
		return false
	}
	v, err := semver.NPM.Parse(node)
	return err == nil && spec{ranges: ranges}.allows(v)
}

var errManifest = errors.New("the registry's answer makes no sense")

// readManifest reads what a registry says of a version, which has to be what was asked for.
func readManifest(raw []byte, name, version string) (*manifest, error) {
	m := &manifest{}
	if err := json.Unmarshal(raw, m); err != nil {
		return nil, &Error{Kind: Untrusted, Package: name + "@" + version, Reason: errManifest.Error() + ": " + oneLine(err), Err: errManifest}
	}
	if m.Name != name || m.Version != version {
		return nil, &Error{Kind: Untrusted, Package: name + "@" + version, Reason: "the registry gives it out as " + clip(m.Name) + "@" + clip(m.Version), Err: errManifest}
	}
	return m, nil
}
