package phxworker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/phxworker/phxworker/channel"
	"github.com/phxworker/phxworker/channel/extension"
	"github.com/phxworker/phxworker/claim"
	"github.com/phxworker/phxworker/runner/terms"
	"github.com/phxworker/phxworker/slots"
)

// The extensions of the queue's topic; see docs/extensions.
const (
	extLease    = "lease"
	extAttempt  = "attempt"
	extRelease  = "release"
	extLongpoll = "longpoll"
	extClaimAck = "claim_ack"
	extStatus   = "status"
	extDrain    = "drain"
)

var queueExtensions = []string{extLease, extAttempt, extRelease, extLongpoll, extClaimAck, extStatus, extDrain}

// AllExtensions in [Config.Extensions] stands for all of them.
const AllExtensions = "all"

// KnownExtensions returns the names of the extensions to Lightning's protocol that
// this worker can use, where the server announces them.
func KnownExtensions() []string {
	return append(slices.Clone(queueExtensions), terms.Extensions()...)
}

// newExtensions returns what a configuration offers.
func (c *Config) newExtensions() (*extension.Set, error) {
	known := KnownExtensions()
	for _, name := range c.Extensions {
		if name != AllExtensions && !slices.Contains(known, name) {
			return nil, fmt.Errorf("there is no extension %q; there are %s, and %s for all of them", name, strings.Join(known, ", "), AllExtensions)
		}
	}
	if slices.Contains(c.Extensions, AllExtensions) {
		return extension.NewSet(c.Logger, known...), nil
	}
	return extension.NewSet(c.Logger, c.Extensions...), nil
}

// waitFor returns for how many milliseconds a claim may wait at the server. A
// waiting claim holds up a stop, unless the server hears of that; so both must be
// agreed on. It must be answered well before the worker gives it up.
func (q *queue) waitFor(ctx context.Context, join *channel.Join) int64 {
	var terms struct {
		MaxWaitMS float64 `json:"max_wait_ms"`
	}
	if !q.payload.set.Agreed(join, extLongpoll, &terms) || q.statusInterval(join) == never {
		return 0
	}
	wait := extension.Milliseconds(terms.MaxWaitMS)
	if until, ok := ctx.Deadline(); ok {
		wait = min(wait, time.Until(until)/2)
	}
	return wait.Milliseconds()
}

// asAgreed adds to a run what was agreed on that the server tells of it. What
// cannot be read is left out: the run has been given away.
func (q *queue) asAgreed(run claim.Run, data json.RawMessage, join *channel.Join) claim.Run {
	var told struct {
		LeaseMS float64 `json:"lease_ms"`
		Attempt int     `json:"attempt"`
	}
	_ = json.Unmarshal(data, &told)
	if q.payload.set.Agreed(join, extLease, nil) {
		run.Lease = extension.Milliseconds(told.LeaseMS)
	}
	if q.payload.set.Agreed(join, extAttempt, nil) {
		run.Attempt = told.Attempt
	}
	return run
}

// TakesBack implements [terms.Releaser].
func (q *queue) TakesBack() (yes, known bool) {
	join, _ := q.now()
	return join != nil && q.payload.set.Agreed(join, extRelease, nil), join != nil
}

// canRelease reports whether the server takes runs back, as far as is known just
// now.
func (q *queue) canRelease() bool {
	yes, _ := q.TakesBack()
	return yes
}

var _ terms.Releaser = (*queue)(nil)

// Release implements [terms.Releaser]. A release of which nobody knows whether
// it arrived is made again after a rejoin. If that one is refused because the run is not
// this worker's any more, the first had arrived.
func (q *queue) Release(ctx context.Context, r terms.Release) error {
	before := false
	for {
		join, err := q.nextJoin(ctx)
		if err == nil && ctx.Err() != nil { // else each push would fail at once, for ever
			err = context.Cause(ctx)
		}
		if err != nil {
			return err
		}
		_, err = q.payload.set.Push(ctx, join, extRelease, "run:release", r)
		var refused *channel.RefusedError
		switch {
		case err == nil, before && errors.As(err, &refused) && refused.Reason() == notClaimed:
			return nil
		case errors.Is(err, channel.ErrOutcomeUnknown) && ctx.Err() == nil:
			before = true
		case !errors.Is(err, channel.ErrNotSent):
			return err
		}
	}
}

// notClaimed is why a server refuses the release of a run that the worker does not have.
const notClaimed = "not_claimed"

// nextJoin waits until the queue is joined.
func (q *queue) nextJoin(ctx context.Context) (*channel.Join, error) {
	for {
		join, changed := q.now()
		if join != nil {
			return join, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// returnRun returns a run to the server's queue that is not begun, if the server takes it,
// and reports whether it did.
func (q *queue) returnRun(ctx context.Context, run claim.Run, reason string, delay time.Duration) bool {
	if !q.canRelease() {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, returnTimeout)
	defer cancel()
	err := q.Release(ctx, terms.Release{ID: run.ID, Token: run.Token, Reason: reason, DelayMS: delay.Milliseconds()})
	if err != nil {
		q.log.Debug("a run that was not begun could not be returned to the queue", "run_id", run.ID, "error", err)
	}
	return err == nil
}

// returnTimeout bounds the return of a run that is not begun, reconnects
// included.
const returnTimeout = 30 * time.Second

// returnUnbegun returns a run to the queue that was claimed and not begun, as the worker
// stops. When the worker is aborted meanwhile, that leaves time to report the run.
func (s *starter) returnUnbegun(ctx context.Context, run claim.Run) bool {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	soon, stop := lingering(s.work, returnAborted)
	defer stop()
	defer context.AfterFunc(soon, cancel)()
	returned := s.queue.returnRun(ctx, run, terms.ReleaseDrain, 0)
	if returned {
		s.log.Info("a run that was not begun was returned to the queue, as the worker stops", "run_id", run.ID)
	}
	return returned
}

// returnAborted is how long a run may still be returned when work has ended.
const returnAborted = 5 * time.Second

// leastInterval is between two statuses, whatever the server wants.
const leastInterval = 100 * time.Millisecond

// statusInterval returns how often the server wants to hear of the worker.
func (q *queue) statusInterval(join *channel.Join) time.Duration {
	var terms struct {
		IntervalMS float64 `json:"interval_ms"`
	}
	if !q.payload.set.Agreed(join, extStatus, &terms) || terms.IntervalMS <= 0 {
		return never
	}
	return max(extension.Milliseconds(terms.IntervalMS), leastInterval)
}

// status is what a server that wants to know is told about the worker.
type status struct {
	Groups   map[string]slots.Counts `json:"groups"`
	Runs     []string                `json:"runs"`
	Draining bool                    `json:"draining"`
}

func (w *Worker) status() status {
	stats := w.Stats()
	_, err := w.claiming()
	s := status{Groups: make(map[string]slots.Counts), Runs: []string{}, Draining: err != nil}
	for _, g := range stats.Groups {
		sum := s.Groups[g.Name] // groups may be alike
		sum.Size += g.Size
		sum.Open += g.Open
		sum.Claimed += g.Claimed
		sum.Running += g.Running
		s.Groups[g.Name] = sum
	}
	for _, run := range stats.Runs {
		s.Runs = append(s.Runs, run.RunID)
	}
	return s
}

// reportStatus tells the server how the worker is, as often as it wants, and once
// when it begins to drain, until ctx ends.
func (q *queue) reportStatus(ctx context.Context, now func() status, draining <-chan struct{}) {
	timer := time.NewTimer(never)
	defer timer.Stop()
	for {
		join, err := q.nextJoin(ctx)
		if err != nil {
			return
		}
		interval := q.statusInterval(join)
		if interval != never {
			q.tell(ctx, join, now(), interval)
		}
		timer.Reset(interval)
		select {
		case <-timer.C:
		case <-join.Lost():
		case <-draining:
			draining = nil // it was told of that
		case <-ctx.Done():
			return
		}
	}
}

// never is longer than any join lasts.
const never = 1000 * time.Hour

// tell pushes one status. What becomes of it does not matter: the next one is
// not far.
func (q *queue) tell(ctx context.Context, join *channel.Join, s status, patience time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if _, err := q.payload.set.Push(ctx, join, extStatus, "worker:status", s); err != nil {
		q.log.Debug("the server was not told the worker's status", "error", err)
	}
}
