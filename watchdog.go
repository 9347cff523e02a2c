package phxworker

import (
	"context"
	"time"

	"github.com/phxworker/phxworker/claim"
)

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// watchEvery is how often the loops are looked at. A loop with an open slot puts
// a claim within its longest back-off, which is shorter.
const watchEvery = time.Minute

// watch looks for a claim loop that is stuck: it has an open slot, the queue is
// joined, and yet it has put no claim since the last look. None should ever be.
// What it can do about one is to wake it and to say so; a worker that
// silently claims nothing looks like a quiet day.
func (w *Worker) watch(intake context.Context, turnstile *turnstile, loops []*claim.Loop) {
	every := max(watchEvery, 3*w.cfg.MaxBackoff)
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	claims := make([]uint64, len(loops))
	idle := make([]bool, len(loops)) // it could have claimed at the last look
	for {
		select {
		case <-ticker.C:
		case <-intake.Done():
			return
		}
		for i, loop := range loops {
			ready := isClosed((&door{turnstile, w.groups[i].Name}).Ready())
			before := claims[i]
			stats := loop.Stats()
			claims[i] = stats.Claims + stats.HeldBack // one that a gate holds back is not stuck
			counts := w.pools[i].Counts()
			couldClaim := ready && !loop.Paused() && counts.Open > 0 && counts.Claimed == 0
			if couldClaim && idle[i] && claims[i] == before {
				w.log.Error("a claim loop is stuck; waking it", "group", w.groups[i].Name, "claims", before, "open", counts.Open, "for", every)
				loop.Wake()
			}
			idle[i] = couldClaim
		}
	}
}
