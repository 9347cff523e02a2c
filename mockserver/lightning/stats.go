package lightning

import "maps"

// Stats counts what happened since the start, except where it says now.
type Stats struct {
	Workers   int             `json:"workers"`   // now: joins of worker:queue
	Available int             `json:"available"` // now
	Claimed   int             `json:"claimed"`   // now: claimed, not started
	Started   int             `json:"started"`   // now
	Queues    map[string]int  `json:"queues"`    // now: available runs by queue
	Enqueued  int64           `json:"enqueued"`
	Claims    int64           `json:"claims"` // claims answered
	Empty     int64           `json:"empty_claims"`
	Wakes     int64           `json:"wakes"`  // work-available pushed, once for all workers
	Events    int64           `json:"events"` // pushes on run topics
	Refused   int64           `json:"refused_events"`
	Crashes   int64           `json:"crashes"`        // of run topics
	Ended     map[State]int64 `json:"ended"`          // by final state
	Full      int64           `json:"full,omitempty"` // runs refused since the queue was full

	Extended ExtendedStats `json:"extended,omitzero"` // in extended mode only
}

// Stats returns the counts.
func (s *Service) Stats() Stats {
	workers, wakes := s.waker.stats()
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.stats
	out.Workers, out.Wakes, out.Available = workers, wakes, s.available.size
	for _, r := range s.active {
		if r.state == Started {
			out.Started++
		} else {
			out.Claimed++
		}
	}
	out.Queues = make(map[string]int)
	for name, l := range s.available.byName {
		if n := l[Normal].len() + l[Immediate].len(); n > 0 {
			out.Queues[name] = n
		}
	}
	out.Ended = maps.Clone(s.stats.Ended)
	if s.ext != nil {
		s.ext.statsLocked(&out.Extended)
	}
	return out
}
