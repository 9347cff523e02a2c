package runner

import (
	"context"
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

// wait takes room when there is as much, within the time that the run's token has.
func (r *planRoom) wait(ctx context.Context, p patience, size int64) error {
	const ever = 24 * time.Hour
	at, late := p.deadline(ever)
	ctx, cancel := context.WithDeadlineCause(ctx, at, late)
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
