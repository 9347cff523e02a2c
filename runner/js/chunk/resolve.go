package chunk

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// manifest is what Node reads of a package.json to find a module.
type manifest struct {
	Main    mainModule
	Exports json.RawMessage
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

// resolver finds the files of modules as Node's require does.
type resolver struct{ tree fs.FS }

// module is a path in the tree, below node_modules.
const modulesFolder = "node_modules"

// find returns the path of what a module of a folder means by a specifier.
func (r resolver) find(specifier, from string, conditions []string) (string, error) {
	switch {
	case strings.HasPrefix(specifier, "./"), strings.HasPrefix(specifier, "../"), specifier == ".", specifier == "..":
		if found, ok := r.file(path.Join(from, specifier)); ok {
			return found, nil
		}
	case strings.HasPrefix(specifier, "#"), path.IsAbs(specifier):
	default:
		name, below := splitSpecifier(specifier)
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

func (r resolver) manifest(dir string) (m manifest, ok bool) {
	data, err := fs.ReadFile(r.tree, path.Join(dir, "package.json"))
	return m, err == nil && json.Unmarshal(data, &m) == nil
}

func (r resolver) inPackage(dir, below string, conditions []string) (string, bool) {
	m, ok := r.manifest(dir)
	if !ok {
		return "", false
	}
	if len(m.Exports) > 0 {
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
func exportOf(exports json.RawMessage, below string, conditions []string) string {
	var paths map[string]json.RawMessage
	if json.Unmarshal(exports, &paths) != nil || !slices.ContainsFunc(mapKeys(paths), func(k string) bool { return strings.HasPrefix(k, ".") }) {
		if below != "." {
			return ""
		}
		return target(exports, conditions)
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
func (r resolver) file(name string) (string, bool) {
	for _, extension := range []string{"", ".js", ".json", ".cjs", ".mjs"} {
		if r.isFile(name + extension) {
			return name + extension, true
		}
	}
	if info, err := fs.Stat(r.tree, name); err != nil || !info.IsDir() {
		return "", false
	}
	if m, ok := r.manifest(name); ok && m.Main != "" && m.Main != "." && path.Join(name, string(m.Main)) != name {
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

func (r resolver) isFile(name string) bool {
	info, err := fs.Stat(r.tree, name)
	return err == nil && info.Mode().IsRegular()
}
