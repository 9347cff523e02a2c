package phxworker

import (
	"context"
	"time"

	"github.com/phxworker/phxworker/channel"
	"github.com/phxworker/phxworker/channel/extension"
)

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
	Groups   map[string]groupStatus `json:"groups"`
	Runs     []string               `json:"runs"`
	Draining bool                   `json:"draining"`
}

type groupStatus struct {
	Slots   int `json:"slots"`
	Open    int `json:"open"`
	Claimed int `json:"claimed"`
	Running int `json:"running"`
}

func (w *Worker) status() status {
	stats := w.Stats()
	_, err := w.claiming()
	s := status{Groups: make(map[string]groupStatus), Runs: []string{}, Draining: err != nil}
	for _, g := range stats.Groups {
		sum := s.Groups[g.Name] // groups may be alike
		sum.Slots += g.Size
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
