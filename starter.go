package phxworker

import (
	"context"
	"sync"
	"time"

	"github.com/phxworker/phxworker/claim"
	"github.com/phxworker/phxworker/runner"
	"github.com/phxworker/phxworker/slots"
)

// starter executes claimed runs, each in a goroutine that holds the run's slot
// from beginning to end.
type starter struct {
	worker  *Worker
	work    context.Context
	runner  *runner.Runner
	sockets *sockets

	mu     sync.Mutex
	active map[string]bool // ids of the runs under way
	done   sync.WaitGroup
}

var _ claim.Starter = (*starter)(nil)

// Start implements [claim.Starter].
func (s *starter) Start(run claim.Run, slot *slots.Slot) {
	s.done.Go(func() {
		defer slot.Release()
		if !s.begin(run.ID) {
			s.worker.log.Error("the server gave a run that this worker is executing already; not executed twice", "run_id", run.ID)
			s.pause()
			return
		}
		place := seat{sockets: s.sockets}
		outcome := s.runner.Run(s.work, &place, run.ID, run.Token)
		place.free()
		s.end(run.ID)
		s.worker.tally.add(outcome)
		s.worker.budget.count(outcome.Err)
		if outcome.Err != nil {
			s.pause()
		}
	})
}

// pause holds up a slot whose run came to nothing. A server that refuses what
// it has just given away would otherwise be emptied, run by run, as fast as the
// network allows.
func (s *starter) pause() {
	timer := time.NewTimer(s.worker.cfg.MinBackoff)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-s.work.Done():
	}
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
