package terms

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/phxworker/phxworker/channel"
	"github.com/phxworker/phxworker/channel/extension"
	"github.com/phxworker/phxworker/claim"
)

// ErrLeaseLost says that a run was another worker's by the time that it ended here. Nothing more was reported of it.
var ErrLeaseLost = errors.New("the lease of the run was lost; it is another worker's now")

// leaseLost is the reason that a server gives for refusing whatever comes under a lease that is over.
const leaseLost = "lease_lost"

// Lease is until when a run is this worker's. It counts in wall time, for a machine that sleeps does not hold up the
// server's clock, and in monotonic time as well, for a clock that is set back does not either. Its methods may be
// called concurrently.
type Lease struct {
	until atomic.Pointer[time.Time] // nil: for ever
	whole time.Duration             // the keeper's own
}

// NewLease returns the lease that a run was given with.
func NewLease(run claim.Run) *Lease {
	l := new(Lease)
	if run.Lease > 0 {
		l.extend(run.Claimed, run.Lease)
	}
	return l
}

func (l *Lease) extend(from time.Time, by time.Duration) {
	until := from.Add(by)
	l.until.Store(&until)
	l.whole = by
}

// left returns how long the lease lasts, and whether there is one at all.
func (l *Lease) left() (left time.Duration, leased bool) {
	until := l.until.Load()
	if until == nil {
		return 0, false
	}
	monotonic, wall := time.Until(*until), until.Round(0).Sub(time.Now().Round(0))
	return min(monotonic, wall), true
}

// Withdrawn returns [ErrLeaseLost] if the lease is over or, when there is an error of the server's, if that says so.
// It is what is asked before each event.
func (l *Lease) Withdrawn(err error) error {
	left, leased := l.left()
	if err == nil && leased && left <= 0 || err != nil && isLeaseLost(err) {
		return ErrLeaseLost
	}
	return nil
}

// Lost reports whether an error which ended the run's topic means that the run is another worker's by now: under a
// lease, it does so as well when the server closed the topic.
func (l *Lease) Lost(cause error) bool {
	_, leased := l.left()
	return isLeaseLost(cause) || leased && errors.Is(cause, channel.ErrEnded)
}

// The lease is renewed when a third of it is left, or three minutes; and looked at often enough to notice in time
// that the machine has slept.
const (
	renewAhead = 3 * time.Minute
	lookEvery  = 30 * time.Second
	leastLook  = 50 * time.Millisecond // whatever a server says that a lease lasts
)

func (l *Lease) margin() time.Duration   { return min(renewAhead, l.whole/3) }
func (l *Lease) interval() time.Duration { return min(lookEvery, max(l.whole/12, leastLook)) }

// Keep renews the lease until ctx ends. It returns [ErrLeaseLost] once the lease is lost, nil when ctx ends or there
// never was one. A join that leases were not agreed on with ends the lease, and one that they were may begin another.
func (t *Terms) Keep(ctx context.Context, topic *channel.Topic, lease *Lease, log *slog.Logger) error {
	if _, leased := lease.left(); !leased {
		return nil
	}
	timer := time.NewTimer(lease.interval())
	defer timer.Stop()
	for {
		join, changed := topic.Current()
		left, leased := lease.left()
		agreed := join != nil && t.set.Agreed(join, extLease, nil)
		switch {
		case leased && left <= 0:
			return ErrLeaseLost
		case leased && join != nil && !agreed:
			log.Warn("the server leased the run, and renews no leases any more; the run is taken for this worker's for good")
			lease.until.Store(nil) // for good, as with a server that knows no leases
		case agreed && (!leased || left <= lease.margin()):
			err := t.renew(ctx, join, lease)
			if errors.Is(err, ErrLeaseLost) {
				return err
			}
			if err != nil {
				log.Warn("the lease could not be renewed yet", "left", max(left, 0).Round(time.Second), "error", err)
			}
		}
		timer.Reset(lease.interval())
		select {
		case <-timer.C:
		case <-changed:
		case <-ctx.Done():
			return nil
		}
	}
}

// renew asks for more time. Only a refusal is an answer: whatever else goes wrong is tried again, for as long as the
// lease lasts.
func (t *Terms) renew(ctx context.Context, join *channel.Join, lease *Lease) error {
	asked := time.Now()
	left, _ := lease.left()
	// A renewal does no harm twice, so there is time for another.
	ctx, cancel := context.WithTimeout(ctx, min(max(left/2, lease.interval()), lookEvery))
	defer cancel()
	reply, err := t.set.Push(ctx, join, extLease, "run:renew", struct{}{})
	if errors.As(err, new(*channel.RefusedError)) {
		return ErrLeaseLost
	}
	var granted struct {
		LeaseMS float64 `json:"lease_ms"`
	}
	if err == nil && json.Unmarshal(reply.Response, &granted) == nil && granted.LeaseMS > 0 {
		lease.extend(asked, extension.Milliseconds(granted.LeaseMS))
		t.Renewed.Add(1)
	}
	return err
}

// isLeaseLost reports whether the server says by this error that the lease is over.
func isLeaseLost(err error) bool {
	var refused *channel.RefusedError
	return errors.Is(err, ErrLeaseLost) || errors.As(err, &refused) && refused.Reason() == leaseLost
}
