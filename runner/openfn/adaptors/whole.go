package adaptors

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// recordFile is the record of what was installed, beside its node_modules.
const recordFile = "installed.json"

// errDamaged says that a package is not what was installed.
var errDamaged = errors.New("files of the package are missing, or cut short")

// installation sums up the files of a package, with all it depends on.
type installation struct {
	Files int   `json:"files"`
	Bytes int64 `json:"bytes"`
	// Sum is one of their paths and sizes.
	Sum string `json:"sum"`
}

// survey looks at all files below node_modules.
func survey(dir string) (installation, error) {
	var found installation
	sum := sha256.New()
	root := filepath.Join(dir, "node_modules")
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
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
	found.Sum = hex.EncodeToString(sum.Sum(nil)[:16])
	return found, err
}

// record writes down what was installed in dir.
func record(dir string) error {
	found, err := survey(dir)
	if err != nil {
		return err
	}
	raw, err := json.Marshal(found)
	if err != nil {
		return err
	}
	return write(filepath.Join(dir, recordFile), raw)
}

// whole compares the files of a package with the record, if there is one. The error is
// [errDamaged].
func (r *Repo) whole(s specifier) (recorded bool, err error) {
	dir := r.folder(s)
	if _, err := genuine(dir, s.name); err != nil {
		return false, fmt.Errorf("%w: %w", errDamaged, err)
	}
	was, recorded := readRecord(dir)
	if !recorded {
		return false, nil
	}
	is, err := survey(dir)
	if err != nil || is != was {
		return true, fmt.Errorf("%w: there were %d of %d bytes, and are %d of %d bytes", errDamaged, was.Files, was.Bytes, is.Files, is.Bytes)
	}
	return true, nil
}

func readRecord(dir string) (was installation, found bool) {
	raw, err := os.ReadFile(filepath.Join(dir, recordFile)) //nolint:gosec // below the folder of the repo
	return was, err == nil && json.Unmarshal(raw, &was) == nil
}

// ready returns a package that may be used without another look.
func (r *Repo) ready(s specifier) (Package, bool) {
	p, err := r.prepared(s)
	switch {
	case err != nil:
		return p, false
	case p.Problem != "":
		_, recorded := readRecord(r.folder(s)) // so the files are not to blame
		return p, recorded
	case p.Bundled:
		return p, true
	}
	if _, looked := r.sound.Load(s); !looked { // Node will read all of the files anyway
		if _, err := r.whole(s); err != nil {
			return p, false
		}
		r.sound.Store(s, true)
	}
	return p, true
}
