package runner

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/semaphore"
)

// planRoom is the part that one run has of the memory for large plans, which all runs share. A large plan takes
// several times its size for as long as its run lasts.
type planRoom struct {
	all  *semaphore.Weighted
	held int64
}

// fits takes room for a plan of a size if there is as much; what was taken already counts.
func (r *planRoom) fits(size int64) bool {
	if size > r.held {
		if !r.all.TryAcquire(size - r.held) {
			r.free()
			return false
		}
		r.held = size
	}
	return true
}

// longestWait is how long a run waits for room in its slot, or a quarter of what its token has left: it has to
// be executed yet. Then it goes back, where the server takes it, for later.
const longestWait = 5 * time.Minute

// wait takes room when there is as much.
func (r *planRoom) wait(ctx context.Context, p patience, size int64) error {
	within := min(longestWait, time.Until(p.until)/4)
	ctx, cancel := context.WithTimeoutCause(ctx, within, Postpone(time.Minute, fmt.Sprintf(
		"other large plans have left no room for this one, of %d bytes, for %v", size, within.Round(time.Second))))
	defer cancel()
	if err := r.all.Acquire(ctx, size); err != nil {
		return context.Cause(ctx)
	}
	r.held = size
	return nil
}

func (r *planRoom) free() {
	r.all.Release(r.held)
	r.held = 0
}
