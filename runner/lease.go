package runner

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/phxworker/phxworker/channel"
	"github.com/phxworker/phxworker/channel/extension"
	"github.com/phxworker/phxworker/claim"
)

// ErrLeaseLost says that a run was another worker's by the time that it ended here.
// Nothing more was reported of it.
var ErrLeaseLost = errors.New("the lease of the run was lost; it is another worker's now")

// leaseLost is the reason that a server gives for refusing whatever comes under a
// lease that is over.
const leaseLost = "lease_lost"

// lease is until when a run is this worker's. It counts in wall time, for a machine
// that sleeps does not hold up the server's clock, and in monotonic time as well, for
// a clock that is set back does not either.
type lease struct {
	mu    sync.Mutex
	until time.Time // zero: for ever
	whole time.Duration
}

func newLease(c claim.Run) *lease {
	l := &lease{whole: c.Lease}
	if c.Lease > 0 {
		l.until = c.Claimed.Add(c.Lease)
	}
	return l
}

// left returns how long the lease lasts, and whether there is one at all.
func (l *lease) left() (time.Duration, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	monotonic, wall := time.Until(l.until), l.until.Round(0).Sub(time.Now().Round(0))
	return min(monotonic, wall), !l.until.IsZero()
}

func (l *lease) over() bool {
	left, leased := l.left()
	return leased && left <= 0
}

func (l *lease) extend(from time.Time, by time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.until, l.whole = from.Add(by), by
}

// forget makes the run this worker's for good, as it is with a server that knows no
// leases.
func (l *lease) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.until = time.Time{}
}

// The lease is renewed when a third of it is left, or three minutes; and looked at
// often enough to notice in time that the machine has slept.
const (
	renewAhead = 3 * time.Minute
	lookEvery  = 30 * time.Second
	leastLook  = 50 * time.Millisecond // whatever a server says that a lease lasts
)

func (l *lease) margin() time.Duration   { return min(renewAhead, l.whole/3) }
func (l *lease) interval() time.Duration { return min(lookEvery, max(l.whole/12, leastLook)) }

// keeper renews the lease of one run for as long as the run is under way.
type keeper struct {
	lease *lease
	topic *channel.Topic
	set   *extension.Set
	run   *Run
}

// keep returns ErrLeaseLost once the lease is lost, nil when ctx ends or there never
// was one. A join that leases were not agreed on with ends the lease, and one that they
// were may begin another.
func (k *keeper) keep(ctx context.Context) error {
	if _, leased := k.lease.left(); !leased {
		return nil
	}
	timer := time.NewTimer(k.lease.interval())
	defer timer.Stop()
	for {
		join, changed := k.topic.Current()
		left, leased := k.lease.left()
		agreed := join != nil && k.set.Agreed(join, extLease, nil)
		switch {
		case leased && left <= 0:
			return ErrLeaseLost
		case leased && join != nil && !agreed:
			k.run.log.Warn("the server leased the run, and renews no leases any more; the run is taken for this worker's for good")
			k.lease.forget()
		case agreed && (!leased || left <= k.lease.margin()):
			if err := k.renew(ctx, join, left); errors.Is(err, ErrLeaseLost) {
				return err
			}
		}
		timer.Reset(k.lease.interval())
		select {
		case <-timer.C:
		case <-changed:
		case <-ctx.Done():
			return nil
		}
	}
}

// renew asks for more time. Only a refusal is an answer: whatever else goes wrong
// is tried again, for as long as the lease lasts.
func (k *keeper) renew(ctx context.Context, join *channel.Join, left time.Duration) error {
	asked := time.Now()
	// A renewal does no harm twice, so there is time for another.
	ctx, cancel := context.WithTimeout(ctx, min(max(left/2, k.lease.interval()), lookEvery))
	defer cancel()
	reply, err := k.set.Push(ctx, join, extLease, "run:renew", struct{}{})
	switch {
	case errors.As(err, new(*channel.RefusedError)):
		return ErrLeaseLost
	case err != nil:
		k.run.log.Warn("the lease could not be renewed yet", "left", max(left, 0).Round(time.Second), "error", err)
		return err
	}
	var granted struct {
		LeaseMS float64 `json:"lease_ms"`
	}
	if json.Unmarshal(reply.Response, &granted) == nil && granted.LeaseMS > 0 {
		k.lease.extend(asked, extension.Milliseconds(granted.LeaseMS))
		k.run.tally.renewed.Add(1)
	}
	return nil
}

// isLeaseLost reports whether the server says by this error that the lease is over.
func isLeaseLost(err error) bool {
	var refused *channel.RefusedError
	return errors.Is(err, ErrLeaseLost) || errors.As(err, &refused) && refused.Reason() == leaseLost
}
