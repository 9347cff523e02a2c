package lightning

import (
	"context"
	"time"
)

// clean marks lost, every so often, the runs that have been claimed or started
// for longer than their time limit and the grace, unless they are leased. They are not
// queued again.
func (s *Service) clean(ctx context.Context) {
	ticker := time.NewTicker(s.cfg.JanitorInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-ticker.C:
			for _, id := range s.loseOverdue(now) {
				s.log.Warn("run lost", "run_id", id)
			}
		}
	}
}

func (s *Service) loseOverdue(now time.Time) (ids []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, r := range s.active {
		if r.tenure.leased() {
			continue // the end of its lease decides
		}
		since, errorType := r.claimed, "LostAfterClaim"
		if r.state == Started {
			since, errorType = r.started, "LostAfterStart"
		}
		if now.Sub(since) > r.timeout+grace {
			s.finishLocked(r, Lost, Result{Reason: "lost", ErrorType: errorType})
			ids = append(ids, id)
		}
	}
	return ids
}
