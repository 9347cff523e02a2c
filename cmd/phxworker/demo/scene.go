package demo

import (
	"context"
	"fmt"
	"time"

	"github.com/phxworker/phxworker/examples"
	"github.com/phxworker/phxworker/mockserver"
)

// scene is the examples at the server.
type scene struct {
	server   *mockserver.Server
	examples []examples.Example
}

// snapshot is the scene at one moment.
type snapshot struct {
	runs []run // in the order of the examples
}

// run is one example and what the server knows of it.
type run struct {
	example examples.Example
	record  mockserver.RunRecord
}

func (r run) ended() bool { return r.record.State.Final() }

// waited returns the time from the queue to the claim, 0 before the claim.
func (r run) waited() time.Duration { return between(r.record.EnqueuedAt, r.record.ClaimedAt) }

// took returns the time from the claim to the end, 0 before the end.
func (r run) took() time.Duration { return between(r.record.ClaimedAt, r.record.FinishedAt) }

func between(from, to time.Time) time.Duration {
	if to.IsZero() {
		return 0
	}
	return to.Sub(from)
}

// failure returns what went wrong in the run, on one line, empty if nothing did.
func (r run) failure() string {
	if r.record.ErrorType == "" {
		return ""
	}
	return r.record.ErrorType + ": " + oneLine(r.record.ErrorMessage)
}

func (s snapshot) ended() int {
	n := 0
	for _, r := range s.runs {
		if r.ended() {
			n++
		}
	}
	return n
}

// poll is how often the scene is looked at. The eye sees nothing faster.
const poll = 50 * time.Millisecond

// awaitWorker returns when the worker is on the queue, so that what a run waits
// for is the worker's doing and not the start of the program.
func (s *scene) awaitWorker(ctx context.Context) error {
	ticker := time.NewTicker(poll / 10)
	defer ticker.Stop()
	for s.server.Stats().Workers == 0 {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

func (s *scene) enqueue() error {
	for _, e := range s.examples {
		_, err := s.server.Enqueue(mockserver.Run{Plan: e.Plan, Queue: e.Queue, Dataclip: e.Dataclip, Credentials: e.Credentials})
		if err != nil {
			return fmt.Errorf("example %s.json cannot be queued: %w", e.Name, err)
		}
	}
	return nil
}

// follow shows the scene until all runs have ended. It returns the last
// snapshot in any case, with an error if the context ended first.
func (s *scene) follow(ctx context.Context, shown *lines) (snapshot, error) {
	ticker := time.NewTicker(poll)
	defer ticker.Stop()
	for {
		now := s.look()
		shown.show(now)
		if now.ended() == len(now.runs) {
			return now, nil
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return now, context.Cause(ctx)
		}
	}
}

func (s *scene) look() snapshot {
	var now snapshot
	for _, e := range s.examples {
		record, _ := s.server.Inspect(e.Name) // it keeps far more runs than these
		now.runs = append(now.runs, run{example: e, record: record})
	}
	return now
}
