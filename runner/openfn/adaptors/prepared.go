package adaptors

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

const preparedFile = "prepared.json"

// prepared is what was found out about a package, once and for all.
type prepared struct {
	Exports []string `json:"exports"`
	Bundled bool     `json:"bundled"`
	// Reason is why it is not bundled.
	Reason string `json:"reason,omitempty"`
	// Problem is why Node cannot load it.
	Problem string `json:"problem,omitempty"`
	// Sizes are those of the bundle's files, by path.
	Sizes map[string]int64 `json:"sizes,omitempty"`
}

// bundleFolder is the name of the folder with a package's bundle. Another version
// of this program that makes other bundles has its own.
func bundleFolder() string {
	sum := sha256.Sum256([]byte(bundlerVersion + bundleScript + inspectScript + loadScript + stubHead + stubExport))
	return "bundle-" + hex.EncodeToString(sum[:4])
}

func (r *Repo) preparedFolder(s specifier) string {
	return filepath.Join(r.folder(s), r.bundleFolder)
}

// prepared returns a package that is installed and prepared.
func (r *Repo) prepared(s specifier) (Package, error) {
	dir := r.preparedFolder(s)
	raw, err := os.ReadFile(filepath.Join(dir, preparedFile)) //nolint:gosec // below the folder of the repo
	if err != nil {
		return Package{}, err
	}
	var known prepared
	if err := json.Unmarshal(raw, &known); err != nil {
		return Package{}, err
	}
	if !known.Bundled {
		dir = r.folder(s)
	}
	for name, size := range known.Sizes {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Size() != size {
			return Package{}, fmt.Errorf("%w: %s of the bundle", errDamaged, name)
		}
	}
	p, err := genuine(dir, s.name)
	p.Exports, p.Bundled, p.Problem = known.Exports, known.Bundled, known.Problem
	return p, err
}

// bundle fills dir, which is to be the package's prepared folder.
func (r *Repo) bundle(ctx context.Context, s specifier, dir string) error {
	modules, err := r.modules(s)
	if err != nil {
		return err
	}
	known, err := r.makeBundle(ctx, s, modules, dir)
	if err != nil {
		return err
	}
	if !known.Bundled {
		r.log.Info("package cannot be bundled", "package", s.String(), "reason", known.Reason)
		if err := os.RemoveAll(filepath.Join(dir, "node_modules")); err != nil {
			return err
		}
	} else if known.Sizes, err = sizes(dir); err != nil {
		return err
	}
	raw, err := json.Marshal(known)
	if err != nil {
		return err
	}
	return write(filepath.Join(dir, preparedFile), raw)
}

// sizes returns those of all files in a folder.
func sizes(dir string) (map[string]int64, error) {
	found := make(map[string]int64)
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		found[name] = info.Size()
		return err
	})
	return found, err
}

// modules are what the bundle of a package is made of: itself, as it was
// installed; and the logger with the runtime, so that both use the same.
func (r *Repo) modules(s specifier) ([]Package, error) {
	names := []string{s.name}
	if s.name == runtimeName {
		names = append(names, loggerName)
	}
	var modules []Package
	for _, name := range names {
		p, err := genuine(r.folder(s), name)
		if err != nil {
			return nil, err
		}
		modules = append(modules, p)
	}
	return modules, nil
}
