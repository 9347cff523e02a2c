package adaptors

import (
	"context"
	"path/filepath"
	"strings"
	"time"

	"github.com/gofrs/flock"
)

const (
	// locksFolder has a file for each package that was ever installed. They stay: who
	// removes a lock takes it from those who wait for it.
	locksFolder = ".locks"
	lockPoll    = 100 * time.Millisecond
)

// lock waits until no other process installs the package. The lock is one of the kernel's
// on a file: it goes with the process that has it, however that ends, and with a whole
// machine where the file system is one for several. Where there are no such locks, two
// may install the same at once, which costs time and no more: see [place].
func (r *Repo) lock(ctx context.Context, s specifier, tell func(string)) (unlock func(), err error) {
	dir := filepath.Join(r.dir, locksFolder)
	if err := mkdir(dir); err != nil {
		return func() {}, nil //nolint:nilerr // what is done next says it better
	}
	file := flock.New(filepath.Join(dir, strings.ReplaceAll(s.String(), "/", "+")), flock.SetPermissions(0o644))
	locked, err := file.TryLock()
	if err == nil && !locked {
		r.log.Info("another worker installs the package; waiting for it", "package", s.String())
		tell("Another worker installs " + s.String() + ": waiting for it")
		_, err = file.TryLockContext(ctx, lockPoll)
	}
	if ctx.Err() != nil {
		_ = file.Close()
		return nil, context.Cause(ctx)
	}
	if err != nil {
		r.log.Debug("the folder for adaptors has no locks", "error", err)
	}
	return func() { _ = file.Close() }, nil
}
