package adaptors

import (
	"context"
	"errors"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// local returns a package of the monorepo, as it lies there: whoever works on it
// builds it again and again, so nothing of it is kept.
func (r *Repo) local(ctx context.Context, s specifier) (Package, error) {
	if r.monorepo == "" {
		return Package{}, &InstallError{Specifier: s.String(), Reason: "this worker has no folder with local adaptors: set --monorepo-dir or OPENFN_ADAPTORS_REPO"}
	}
	short := strings.TrimPrefix(path.Base(s.name), "language-")
	if !namePattern.MatchString(short) {
		return Package{}, &InstallError{Specifier: s.String(), Reason: "this is not the name of a folder in the monorepo"}
	}
	p, err := readPackage(filepath.Join(r.monorepo, "packages", short))
	if errors.Is(err, os.ErrNotExist) {
		return Package{}, &InstallError{Specifier: s.String(), Reason: "the monorepo has no packages/" + short}
	}
	if err != nil {
		return Package{}, &InstallError{Specifier: s.String(), Reason: "packages/" + short + " of the monorepo cannot be read: " + err.Error()}
	}
	return withExports(ctx, p, r.monorepo)
}
