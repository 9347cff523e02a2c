package adaptors

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// List returns what is installed, by name and version: adaptors, the runtime and
// the bundler. Nothing is installed or prepared by it.
func (r *Repo) List() ([]Package, error) {
	if _, err := os.ReadDir(r.dir); err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	var list []Package
	for _, s := range r.installed() {
		p, err := r.prepared(s)
		if err != nil {
			p, err = genuine(r.folder(s), s.name)
		}
		if err != nil {
			continue // another program's folder
		}
		list = append(list, p)
	}
	return list, nil
}

// installed are the packages that have a folder, sorted.
func (r *Repo) installed() []specifier {
	var found []specifier
	for _, scope := range []string{"", "@*"} {
		paths, _ := filepath.Glob(filepath.Join(globEscape(r.dir), scope, "?*@*")) // the pattern is well formed
		for _, path := range paths {
			rel, err := filepath.Rel(r.dir, path)
			if err != nil {
				continue
			}
			if s, err := parse(filepath.ToSlash(rel)); err == nil && s.exact() {
				found = append(found, s)
			}
		}
	}
	slices.SortFunc(found, func(a, b specifier) int {
		return cmp.Or(strings.Compare(a.name, b.name), compareVersions(a.version, b.version))
	})
	return found
}

// globEscape makes a path a pattern that only it matches.
func globEscape(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}
