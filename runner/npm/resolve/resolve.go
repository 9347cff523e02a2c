// Package resolve finds the files of modules in a tree as Node's require does: by node_modules, main, exports and imports. The
// bundler for Node and the one for the embedded engine share it.
package resolve

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"
)

// Manifest is what a package.json says, as far as it makes sense.
type Manifest struct {
	Name, Version, Type                                  string
	SideEffects                                          any
	Dependencies, OptionalDependencies, PeerDependencies map[string]any

	Main             mainModule
	Exports, Imports targets
}

// ParseManifest reads a package.json. What is of another kind than it should be is left out.
func ParseManifest(text []byte) (*Manifest, error) {
	m := new(Manifest)
	err := json.Unmarshal(text, m)
	if _, odd := errors.AsType[*json.UnmarshalTypeError](err); odd {
		err = nil
	}
	return m, err
}

// Module returns the path of the main module, relative to its folder, with conditions as for [Resolver.Find].
func (m *Manifest) Module(conditions []string) string {
	return cmp.Or(exportOf(m.Exports, ".", conditions), string(m.Main), "index.js")
}

// String is the name and version, "" if there is no name.
func (m *Manifest) String() string {
	if m.Name == "" {
		return ""
	}
	return m.Name + "@" + m.Version
}

// Needs reports whether a package says that it depends on another, and could not do without.
func (m *Manifest) Needs(name string) bool {
	_, needed := m.Dependencies[name]
	_, optional := m.OptionalDependencies[name]
	return needed && !optional
}

// mainModule is a path, "" for what is none: packages without a main module say so in several ways.
type mainModule string

// UnmarshalJSON implements [json.Unmarshaler].
func (m *mainModule) UnmarshalJSON(data []byte) error {
	var text string
	if json.Unmarshal(data, &text) == nil {
		*m = mainModule(text)
	}
	return nil
}

// targets is the value of "exports" or "imports".
type targets struct {
	all   json.RawMessage
	paths map[string]json.RawMessage // nil if there are none, and all is for the main module
}

// UnmarshalJSON implements [json.Unmarshaler].
func (t *targets) UnmarshalJSON(text []byte) error {
	t.all = slices.Clone(text)
	var paths map[string]json.RawMessage
	if json.Unmarshal(text, &paths) == nil && slices.ContainsFunc(mapKeys(paths), func(k string) bool { return strings.HasPrefix(k, ".") || strings.HasPrefix(k, "#") }) {
		t.paths = paths
	}
	return nil
}

// Resolver finds the files of a tree's modules. It remembers what the packages say, and may be used concurrently.
type Resolver struct {
	tree      fs.FS
	manifests sync.Map // by folder; nil where there is none
}

// New returns a Resolver for a tree with a folder node_modules, in npm's layout, that does not change.
func New(tree fs.FS) *Resolver { return &Resolver{tree: tree} }

const modulesFolder = "node_modules"

// Find returns the path of what a module of the folder from means by a specifier that is no builtin; conditions are
// those that hold in "exports" and "imports".
func (r *Resolver) Find(specifier, from string, conditions []string) (string, error) {
	switch {
	case strings.HasPrefix(specifier, "./"), strings.HasPrefix(specifier, "../"), specifier == ".", specifier == "..":
		if found, ok := r.file(path.Join(from, specifier)); ok {
			return found, nil
		}
	case strings.HasPrefix(specifier, "#"):
		dir, m := r.Around(from)
		if found := exportOf(m.Imports, specifier, conditions); strings.HasPrefix(found, "./") {
			if found = path.Join(dir, found); r.isFile(found) {
				return found, nil
			}
		} else if found != "" && !strings.HasPrefix(found, "#") {
			return r.Find(found, dir, conditions)
		}
	case path.IsAbs(specifier):
	default:
		name, below := splitSpecifier(specifier)
		if dir, m := r.Around(from); m.Name == name && m.Exports.all != nil {
			if found, ok := r.inPackage(dir, below, conditions); ok {
				return found, nil
			}
		}
		for dir := from; ; dir = path.Dir(dir) {
			if found, ok := r.inPackage(path.Join(dir, modulesFolder, name), below, conditions); ok {
				return found, nil
			}
			if dir == "." {
				break
			}
		}
	}
	return "", fmt.Errorf("cannot find module %q from %s", specifier, from)
}

// Lacking returns the name of the package that a module of the folder from means by a specifier, if that package is nowhere in the tree
// where it would be looked for; "" if it is there, or the specifier is a path.
func (r *Resolver) Lacking(specifier, from string) string {
	if strings.HasPrefix(specifier, ".") || strings.HasPrefix(specifier, "#") || path.IsAbs(specifier) {
		return ""
	}
	name, _ := splitSpecifier(specifier)
	for dir := from; ; dir = path.Dir(dir) {
		if r.manifest(path.Join(dir, modulesFolder, name)) != nil {
			return ""
		}
		if dir == "." {
			return name
		}
	}
}

// splitSpecifier returns the name of the package and the path in it, "." for its main module.
func splitSpecifier(specifier string) (name, below string) {
	parts := strings.SplitN(specifier, "/", 3)
	n := 1
	if strings.HasPrefix(specifier, "@") {
		n = 2
	}
	n = min(n, len(parts))
	name = strings.Join(parts[:n], "/")
	return name, strings.TrimSuffix("./"+strings.Join(parts[n:], "/"), "/")
}

// manifest returns what the package.json in a folder says; nil if there is none that can be read.
func (r *Resolver) manifest(dir string) *Manifest {
	known, ok := r.manifests.Load(dir)
	if !ok {
		var m *Manifest
		if data, err := fs.ReadFile(r.tree, path.Join(dir, "package.json")); err == nil {
			if m, err = ParseManifest(data); err != nil {
				m = nil
			}
		}
		known, _ = r.manifests.LoadOrStore(dir, m)
	}
	m, _ := known.(*Manifest)
	return m
}

// Around returns the folder of the package that a folder is in, with what its package.json says, which is nothing if there is none.
func (r *Resolver) Around(dir string) (string, *Manifest) {
	for ; dir != "." && path.Base(dir) != modulesFolder; dir = path.Dir(dir) {
		if m := r.manifest(dir); m != nil {
			return dir, m
		}
	}
	return "", new(Manifest)
}

// Folder returns the folder of the package that a file belongs to, the innermost; "" if there is none.
func Folder(file string) string {
	const folder = modulesFolder + "/"
	i := strings.LastIndex("/"+file, "/"+folder)
	if i < 0 {
		return ""
	}
	name, _ := splitSpecifier(file[i+len(folder):])
	return file[:i] + folder + name
}

func (r *Resolver) inPackage(dir, below string, conditions []string) (string, bool) {
	m := r.manifest(dir)
	if m == nil {
		return "", false
	}
	if m.Exports.all != nil {
		target := exportOf(m.Exports, below, conditions)
		return path.Join(dir, target), target != "" && r.isFile(path.Join(dir, target))
	}
	if below != "." {
		return r.file(path.Join(dir, below))
	}
	if m.Main != "" {
		if found, ok := r.file(path.Join(dir, string(m.Main))); ok {
			return found, true
		}
	}
	return r.file(path.Join(dir, "index"))
}

// exportOf returns what a package exports under a path, "" for nothing.
func exportOf(exports targets, below string, conditions []string) string {
	paths := exports.paths
	if paths == nil {
		if below != "." || exports.all == nil {
			return ""
		}
		return target(exports.all, conditions)
	}
	if one, ok := paths[below]; ok {
		return target(one, conditions)
	}
	best := ""
	for pattern := range paths {
		before, after, star := strings.Cut(pattern, "*")
		if star && strings.HasPrefix(below, before) && strings.HasSuffix(below, after) && len(before) > len(best) {
			best = pattern
		}
	}
	if best == "" {
		return ""
	}
	before, after, _ := strings.Cut(best, "*")
	return strings.ReplaceAll(target(paths[best], conditions), "*", below[len(before):len(below)-len(after)])
}

func mapKeys(m map[string]json.RawMessage) []string {
	var keys []string
	for k := range m {
		keys = append(keys, k)
	}
	return keys
}

// target returns the first target of an export whose conditions hold, in the order in which they are written.
func target(value json.RawMessage, conditions []string) string {
	var text string
	if json.Unmarshal(value, &text) == nil {
		return text
	}
	var list []json.RawMessage
	if json.Unmarshal(value, &list) == nil {
		for _, one := range list {
			if found := target(one, conditions); found != "" {
				return found
			}
		}
		return ""
	}
	decoder := json.NewDecoder(strings.NewReader(string(value)))
	if _, err := decoder.Token(); err != nil {
		return ""
	}
	for decoder.More() {
		key, err := decoder.Token()
		var one json.RawMessage
		if err != nil || decoder.Decode(&one) != nil {
			return ""
		}
		if name, _ := key.(string); name == "default" || slices.Contains(conditions, name) {
			if found := target(one, conditions); found != "" {
				return found
			}
		}
	}
	return ""
}

// file returns the file that a path without an extension means, or the main module of a folder.
func (r *Resolver) file(name string) (string, bool) {
	for _, extension := range []string{"", ".js", ".json", ".node", ".cjs", ".mjs"} {
		if r.isFile(name + extension) {
			return name + extension, true
		}
	}
	if info, err := fs.Stat(r.tree, name); err != nil || !info.IsDir() {
		return "", false
	}
	if m := r.manifest(name); m != nil && m.Main != "" && m.Main != "." && path.Join(name, string(m.Main)) != name {
		if found, ok := r.file(path.Join(name, string(m.Main))); ok {
			return found, true
		}
	}
	for _, index := range []string{"index.js", "index.json", "index.cjs"} {
		if r.isFile(path.Join(name, index)) {
			return path.Join(name, index), true
		}
	}
	return "", false
}

func (r *Resolver) isFile(name string) bool {
	info, err := fs.Stat(r.tree, name)
	return err == nil && info.Mode().IsRegular()
}
