package npm

import (
	"bytes"
	"encoding/json"
	"errors"
	"runtime"
	"slices"
	"strings"

	"deps.dev/util/semver"
)

// A manifest is what a registry says of one version, as far as it matters here.
type manifest struct {
	Name         string       `json:"name"`
	Version      string       `json:"version"`
	Dependencies dependencies `json:"dependencies"`
	Optional     dependencies `json:"optionalDependencies"`
	Peers        dependencies `json:"peerDependencies"`
	PeersMeta    peersMeta    `json:"peerDependenciesMeta"`
	Bundled      bundled      `json:"bundleDependencies"`
	Engines      engines      `json:"engines"`
	Deprecated   deprecated   `json:"deprecated"`
	OS           list         `json:"os"`
	CPU          list         `json:"cpu"`
	Libc         list         `json:"libc"`
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

type peersMeta map[string]bool // which of them are optional

func (m *peersMeta) UnmarshalJSON(raw []byte) error {
	*m = peersMeta{}
	var all map[string]json.RawMessage
	_ = json.Unmarshal(raw, &all)
	for name, text := range all {
		var about struct {
			Optional bool `json:"optional"`
		}
		(*m)[name] = json.Unmarshal(text, &about) == nil && about.Optional
	}
	return nil
}

// bundled are the names of the packages in the archive of another.
type bundled struct {
	names list
	all   bool
}

func (b *bundled) UnmarshalJSON(raw []byte) error {
	*b = bundled{}
	if json.Unmarshal(raw, &b.all) != nil {
		return b.names.UnmarshalJSON(raw)
	}
	return nil
}

func (b bundled) has(name string) bool { return b.all || slices.Contains(b.names, name) }

type engines struct{ node string }

func (e *engines) UnmarshalJSON(raw []byte) error {
	var of map[string]any
	*e = engines{}
	if json.Unmarshal(raw, &of) == nil { // it may be a list, in old packages
		e.node, _ = of["node"].(string)
	}
	return nil
}

// deprecated tells that there is a warning of the version. An empty one takes it back.
type deprecated bool

func (d *deprecated) UnmarshalJSON(raw []byte) error {
	text := string(raw)
	*d = text != "null" && text != `""` && text != "false"
	return nil
}

// list is a list of words, or one word.
type list []string

func (l *list) UnmarshalJSON(raw []byte) error {
	*l = nil
	var word string
	if json.Unmarshal(raw, &word) == nil && word != "" {
		*l = list{word}
		return nil
	}
	var words []any
	_ = json.Unmarshal(raw, &words)
	for _, w := range words {
		if text, ok := w.(string); ok {
			*l = append(*l, text)
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
		p.libc = libc()
	}
	return p
}

// runs reports whether a package is for the system.
func (p platform) runs(m *manifest) bool {
	return m.OS.admits(p.os) && m.CPU.admits(p.cpu) && (p.libc == "" || m.Libc.admits(p.libc))
}

// nodeOK reports whether a package is for a version of Node; none is known when it is empty.
func (m *manifest) nodeOK(node string) bool {
	if node == "" || m.Engines.node == "" {
		return true
	}
	ranges, err := parseRange(m.Engines.node)
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
