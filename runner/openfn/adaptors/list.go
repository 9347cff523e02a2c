package adaptors

import (
	"cmp"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// List returns what is installed, by name and version: adaptors and the runtime. Nothing is installed or prepared by it.
func (r *Repo) List() ([]Package, error) {
	if _, err := os.ReadDir(r.dir); err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	var list []Package
	for _, s := range r.installed() {
		_, p, err := readPrepared(r.preparedFolder(s), s)
		if err != nil {
			p, err = r.ofOtherVersion(s)
		}
		if err == nil {
			list = append(list, p)
		}
	}
	return list, nil
}

// installed are the packages that this program has installed, or another version of it, sorted.
func (r *Repo) installed() []specifier {
	found := make(map[specifier]bool)
	for _, scope := range []string{"", "@*"} {
		paths, _ := filepath.Glob(filepath.Join(globEscape(r.dir), scope, "?*@*", bundlePrefix+"*", preparedFile)) // the pattern is well formed
		for _, path := range paths {
			rel, err := filepath.Rel(r.dir, filepath.Dir(filepath.Dir(path)))
			if err != nil {
				continue
			}
			if s, err := parse(filepath.ToSlash(rel)); err == nil && s.exact() {
				found[s] = true
			}
		}
	}
	return slices.SortedFunc(maps.Keys(found), func(a, b specifier) int {
		return cmp.Or(strings.Compare(a.name, b.name), compareVersions(a.version, b.version))
	})
}

// ofOtherVersion returns the bundle that another version of this program has made of a package. It is as good as ours where
// ours cannot be made: what it was made of is not on the disk any more.
func (r *Repo) ofOtherVersion(s specifier) (Package, error) {
	folders, _ := filepath.Glob(filepath.Join(globEscape(r.folder(s)), bundlePrefix+"*"))
	for _, dir := range slices.Backward(folders) {
		if known, p, err := readPrepared(dir, s); err == nil && known.Bundled && known.Problem == "" {
			return p, nil
		}
	}
	return Package{}, fs.ErrNotExist
}

// globEscape makes a path a pattern that only it matches.
func globEscape(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}
