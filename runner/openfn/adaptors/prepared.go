package adaptors

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/phxworker/phxworker/runner/npm"
)

const preparedFile = "prepared.json"

// errDamaged says that a package is not what was installed.
var errDamaged = errors.New("files of the package are missing, or cut short")

// prepared is what was found out about a package, once and for all.
type prepared struct {
	Exports []string `json:"exports"`
	Bundled bool     `json:"bundled"`
	// Reason is why it is not bundled.
	Reason string `json:"reason,omitempty"`
	// Problem is why Node cannot load it.
	Problem string `json:"problem,omitempty"`
	// Modules sums up the files in node_modules: those of the bundle, or all that was published.
	Modules installation `json:"modules"`
	// Beside sums up those that a bundle has Node find.
	Beside installation `json:"beside"`
}

// installation sums up files.
type installation struct {
	Files int   `json:"files"`
	Bytes int64 `json:"bytes"`
	// Sum is one of their paths and sizes.
	Sum string `json:"sum"`
}

// survey looks at all files below a folder, if there is one, but for code caches.
func survey(root string) (found installation, err error) {
	sum := sha256.New()
	err = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() || cacheName.MatchString(entry.Name()) {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		found.Files++
		found.Bytes += info.Size()
		fmt.Fprintf(sum, "%s\x00%d\n", filepath.ToSlash(name), info.Size())
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		return installation{}, nil
	}
	found.Sum = hex.EncodeToString(sum.Sum(nil)[:16])
	return found, err
}

func (known *prepared) survey(dir string) (err error) {
	if known.Modules, err = survey(filepath.Join(dir, "node_modules")); err == nil {
		known.Beside, err = survey(filepath.Join(dir, besideFolder))
	}
	return err
}

const bundlePrefix = "bundle-"

// bundleFolder is the name of the folder with what is made of a package. Another version
// of this program that makes something else has its own.
func bundleFolder() string {
	sum := sha256.Sum256([]byte(bundleVersion + bundleFrame + inspectScript + loadScript + stubHead + stubExport))
	return bundlePrefix + hex.EncodeToString(sum[:4])
}

func (r *Repo) preparedFolder(s specifier) string {
	return filepath.Join(r.folder(s), r.bundleFolder)
}

// prepare fills dir, which is to be the package's prepared folder, with what was made of the same packages before, or makes it.
func (r *Repo) prepare(ctx context.Context, s specifier, files *npm.Files, dir string) error {
	key := strings.Join(append([]string{s.String(), r.bundleFolder, r.nodeVersion(ctx)}, r.flags...), " ")
	if packed, ok := files.Made(key); ok && !r.again {
		if err := unpackFolder(packed, dir); err == nil || takesNoWrites(err) || errors.Is(err, syscall.ENOSPC) {
			return err
		}
		if err := empty(dir); err != nil {
			return err
		}
	}
	bundled, err := r.make(ctx, s, files, dir)
	if err != nil || !bundled { // what is not bundled is the archives' own files, and many
		return err
	}
	packed, err := packFolder(dir)
	if err != nil {
		return err
	}
	files.Keep(key, packed)
	return nil
}

// make fills dir from what the registry gives out.
func (r *Repo) make(ctx context.Context, s specifier, files *npm.Files, dir string) (bundled bool, err error) {
	modules, err := modulesOf(s, files)
	if err != nil {
		return false, err
	}
	known, err := r.writeBundle(ctx, modules, files, dir)
	if reason, ok := errors.AsType[unbundleable](err); ok {
		r.log.Info("package cannot be bundled", "package", s.String(), "reason", reason)
		if err := empty(dir); err != nil {
			return false, err
		}
		known, err = r.writeAsPublished(ctx, modules[0], files, dir, string(reason))
	}
	if err != nil {
		return false, err
	}
	if err := known.survey(dir); err != nil {
		return false, err
	}
	raw, err := json.Marshal(known)
	if err != nil {
		return false, err
	}
	return known.Bundled, writeFile(filepath.Join(dir, preparedFile), raw)
}

// modulesOf are what the bundle of a package is made of: itself; and the logger with the runtime, so that both use
// the same. The error is that they are not what was asked for.
func modulesOf(s specifier, files fs.FS) ([]Package, error) {
	p, err := published(files, s.name)
	if err == nil && p.Version != s.version {
		err = &falseError{"the archive has version " + p.Version}
	}
	if err != nil || s.name != runtimeName {
		return []Package{p}, err
	}
	logger, err := published(files, loggerName)
	return []Package{p, logger}, err
}

// ready returns a package that is installed and whole. Of a bundle, all that runs load is looked at each
// time; what lies beside it, and what is no bundle, once.
func (r *Repo) ready(s specifier) (Package, error) {
	dir := r.preparedFolder(s)
	known, p, err := readPrepared(dir, s)
	if err != nil {
		return p, err
	}
	_, looked := r.sound.Load(s)
	is := known
	switch {
	case !looked:
		err = is.survey(dir)
	case known.Bundled:
		is.Modules, err = survey(filepath.Join(dir, "node_modules"))
	}
	if err != nil || is.Modules != known.Modules || is.Beside != known.Beside {
		return Package{}, fmt.Errorf("%w: there were %d of %d bytes, and are %d of %d bytes", errDamaged,
			known.Modules.Files+known.Beside.Files, known.Modules.Bytes+known.Beside.Bytes, is.Modules.Files+is.Beside.Files, is.Modules.Bytes+is.Beside.Bytes)
	}
	r.sound.Store(s, true)
	return p, nil
}

func readPrepared(dir string, s specifier) (known prepared, p Package, err error) {
	raw, err := os.ReadFile(filepath.Join(dir, preparedFile)) //nolint:gosec // below the folder of the repo
	if err == nil {
		err = json.Unmarshal(raw, &known)
	}
	if err == nil {
		p, err = genuine(dir, s.name)
	}
	p.Exports, p.Bundled, p.Problem = known.Exports, known.Bundled, known.Problem
	return known, p, err
}
