package adaptors

import (
	"context"
	"errors"
	"path/filepath"
)

var errNotOfWorker = errors.New("OpenFn's worker has not installed it here")

// ofWorker returns a package that OpenFn's own worker has installed in the same folder, where each
// version has an alias. It is used as it lies there.
func (r *Repo) ofWorker(ctx context.Context, s specifier) (Package, error) {
	p, err := readPackage(npmFolder(r.dir, s.name+"_"+s.version))
	if err != nil || p.Name != s.name || p.Version != s.version {
		return Package{}, errNotOfWorker
	}
	if err := enclosed(p.Dir); err != nil {
		return Package{}, err
	}
	p, err = withExports(ctx, p, filepath.Join(r.dir, "node_modules"))
	if err == nil && p.Problem != "" {
		err = errors.New(p.Problem)
	}
	if err == nil {
		r.ofWorkers.Store(s, p)
	}
	return p, err
}
