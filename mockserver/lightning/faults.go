package lightning

import (
	"time"

	"github.com/phxworker/phxworker/mockserver/fault"
)

// Struck puts a fault on the record of its run, if that is known.
func (s *Service) Struck(strike fault.Strike) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.runs[strike.Run]; r != nil {
		r.faults = append(r.faults, strike)
	}
}

// ExpireToken makes a run's token expire now, for joins to come: what is joined
// stays so. It reports whether the run has a token.
func (s *Service) ExpireToken(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.runs[id]
	if r == nil || r.token == "" {
		return false
	}
	r.expires = time.Now()
	return true
}
