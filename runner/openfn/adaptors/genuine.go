package adaptors

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// falseError says that what was installed is not the package that was asked for, or reaches out of
// its folder. A registry that was tampered with can have that done, and so can whoever
// publishes one of the packages that another depends on.
type falseError struct{ what string }

func (e *falseError) Error() string { return e.what }

// genuine reads what was put into dir under a name. The error is a [*falseError] if the
// package says that it has another name, of which paths and code would be made, or that its
// module is somewhere else.
func genuine(dir, name string) (Package, error) {
	p, err := readPackage(npmFolder(dir, name))
	if err != nil {
		return Package{}, err
	}
	return p, p.check(name)
}

// published is the same of what a registry gives out. Paths are those of its tree.
func published(files fs.FS, name string) (Package, error) {
	dir := path.Join("node_modules", name)
	raw, err := fs.ReadFile(files, path.Join(dir, "package.json"))
	if err != nil {
		return Package{}, err
	}
	p, err := parsePackage(raw, dir)
	if err != nil {
		return Package{}, &falseError{err.Error()}
	}
	return p, p.check(name)
}

func (p Package) check(name string) error {
	switch {
	case p.Name != name:
		return &falseError{fmt.Sprintf("what the registry gives out calls itself %q", p.Name)}
	case p.Entry != p.Dir && !strings.HasPrefix(p.Entry, p.Dir+string(filepath.Separator)):
		return &falseError{"its module is outside of its folder: " + p.Entry}
	}
	return nil
}

// enclosed looks for links below dir that lead out of it: Node follows them past the permissions
// of jobs. None are made here, but a folder may have been filled by another program.
func enclosed(dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	return filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.Type()&fs.ModeSymlink == 0 {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		if _, err := root.Stat(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return &falseError{name + " is a link that leads out of the package's folder"}
		}
		return nil
	})
}
