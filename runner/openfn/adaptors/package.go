package adaptors

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/phxworker/phxworker/runner/npm/resolve"
)

// Package is an installed package.
type Package struct {
	Name, Version string
	// Dir is the folder to load it from. Its package.json has the name and the
	// version, and says which module it is, in "exports" or "main".
	Dir string
	// Entry is the path of that module.
	Entry string
	// Exports are the names that the module exports, sorted. Nil if Node cannot
	// load it.
	Exports []string
	// Problem is why Node cannot load it; empty if it can.
	Problem string
	// Bundled tells that Dir has a bundle, not what was installed.
	Bundled bool
}

// Loader is the path of the CommonJS module that loads the bundle: its function load returns the namespaces of the
// bundle's modules, this package's first. An import of Entry gives the same.
func (p Package) Loader() string { return filepath.Join(p.Dir, loadFile) }

// readPackage reads what a folder says of itself.
func readPackage(dir string) (Package, error) {
	raw, err := os.ReadFile(filepath.Join(dir, "package.json")) //nolint:gosec // below the folders of the repo
	if err != nil {
		return Package{}, err
	}
	return parsePackage(raw, dir)
}

// conditions are those of "exports" that hold for an import in Node.
var conditions = []string{"node", "import"}

// parsePackage reads the package.json of a folder.
func parsePackage(raw []byte, dir string) (Package, error) {
	p, err := resolve.ParseManifest(raw)
	if err != nil {
		return Package{}, fmt.Errorf("package.json of %s: %w", filepath.Base(dir), err)
	}
	if p.Name == "" || p.Version == "" {
		return Package{}, errors.New("package.json without a name and a version")
	}
	return Package{Name: p.Name, Version: p.Version, Dir: dir, Entry: filepath.Join(dir, p.Module(conditions))}, nil
}
