package phxworker

import (
	"context"
	"sync"

	"github.com/phxworker/phxworker/claim"
	"github.com/phxworker/phxworker/runner"
	"github.com/phxworker/phxworker/slots"
)

// starter executes claimed runs, each in a goroutine that holds the run's slot
// from beginning to end.
type starter struct {
	worker *Worker
	work   context.Context
	runner *runner.Runner

	mu     sync.Mutex
	active map[string]bool // ids of the runs under way
	done   sync.WaitGroup
}

var _ claim.Starter = (*starter)(nil)

// Start implements [claim.Starter].
func (s *starter) Start(run claim.Run, slot *slots.Slot) {
	if !s.begin(run.ID) {
		s.worker.log.Error("the server gave a run that this worker is executing already; not executed twice", "run_id", run.ID)
		slot.Release()
		return
	}
	s.done.Go(func() {
		defer slot.Release()
		defer s.end(run.ID)
		outcome := s.runner.Run(s.work, run.ID, run.Token)
		s.worker.tally.add(outcome)
	})
}

// begin reports whether the run was not under way yet.
func (s *starter) begin(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.active[id] {
		return false
	}
	if s.active == nil {
		s.active = make(map[string]bool)
	}
	s.active[id] = true
	return true
}

func (s *starter) end(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.active, id)
}

// wait returns when all runs are over. No run may be started any more.
func (s *starter) wait() { s.done.Wait() }
