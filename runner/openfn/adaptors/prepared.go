package adaptors

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
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
	p, err := readPackage(npmFolder(dir, s.name))
	p.Exports, p.Bundled = known.Exports, known.Bundled
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
	}
	raw, err := json.Marshal(known)
	if err != nil {
		return err
	}
	return write(filepath.Join(dir, preparedFile), raw)
}

// modules are what the bundle of a package is made of: itself, as npm installed
// it; and the logger with the runtime, so that both use the same.
func (r *Repo) modules(s specifier) ([]Package, error) {
	names := []string{s.name}
	if s.name == runtimeName {
		names = append(names, loggerName)
	}
	var modules []Package
	for _, name := range names {
		p, err := readPackage(npmFolder(r.folder(s), name))
		if err != nil {
			return nil, err
		}
		modules = append(modules, p)
	}
	return modules, nil
}
