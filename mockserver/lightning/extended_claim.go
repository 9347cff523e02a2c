package lightning

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/phxworker/phxworker/mockserver/phoenix"
)

// wait is a claim that waits for a run.
type wait struct {
	channel *queueMember
	request claimRequest
	later   *phoenix.Later
	over    *deadline
}

// answer is what a claim that waited is given; taken may be empty.
type answer struct {
	wait  *wait
	taken []given
	at    time.Time
}

// claim answers a claim at once when there is a run for it, or else, if it says
// so, as soon as there is one. Those who came first are served first.
func (x *extended) claim(c *queueMember, p phoenix.Push) phoenix.Reply {
	request, reason := readClaim(p)
	if reason != "" {
		return phoenix.Crash(reason)
	}
	patience, reason := x.patience(c, request)
	if reason != "" {
		return phoenix.Crash(reason)
	}
	s, now := x.service, time.Now()
	s.mu.Lock()
	if c.drained || c.member.draining {
		s.countClaimLocked(nil)
		s.mu.Unlock()
		return phoenix.OK(claimResponse(nil))
	}
	x.matchLocked(now)
	taken := x.takeLocked(c, request, now)
	if len(taken) == 0 && request.demand > 0 && patience > 0 {
		w := &wait{channel: c, request: request}
		var reply phoenix.Reply
		w.later, reply = p.Defer()
		w.over = x.inLocked(patience, func(now time.Time) { x.endWaitsLocked(func(other *wait) bool { return other == w }, now) })
		x.waits = append(x.waits, w)
		s.mu.Unlock()
		return reply
	}
	s.countClaimLocked(taken)
	s.mu.Unlock()
	reply, err := x.hand(taken, now)
	if err != nil {
		return phoenix.Crash(err.Error())
	}
	return reply
}

// patience is how long a claim is to wait.
func (x *extended) patience(c *queueMember, request claimRequest) (d time.Duration, crash string) {
	raw, ok := request.fields["wait_ms"]
	if !ok || !c.with[extLongPoll] {
		return 0, ""
	}
	var n int64
	if json.Unmarshal(raw, &n) != nil || n < 0 {
		return 0, "wait_ms must be an integer, and not negative"
	}
	return time.Duration(min(n, ms(x.cfg.MaxWait))) * time.Millisecond, ""
}

// takeLocked takes the runs that a claim gets.
func (x *extended) takeLocked(c *queueMember, request claimRequest, now time.Time) []given {
	isFor := func(r *run) bool { return x.isForLocked(r, c.member, now) }
	taken := x.service.takeLocked(request, isFor, now)
	x.ownLocked(c, taken, now)
	return taken
}

// matchLocked gives the runs there are to the claims that wait, in their order.
func (x *extended) matchLocked(now time.Time) {
	if x.service.available.size == 0 || len(x.waits) == 0 {
		return
	}
	x.waits = slices.DeleteFunc(x.waits, func(w *wait) bool {
		taken := x.takeLocked(w.channel, w.request, now)
		if len(taken) == 0 {
			return false
		}
		x.agenda.drop(w.over)
		x.answerLocked(answer{wait: w, taken: taken, at: now})
		return true
	})
}

func (x *extended) answerLocked(a answer) {
	x.service.countClaimLocked(a.taken)
	x.answers = append(x.answers, a)
	x.stir()
}

// endWaitsLocked answers the waits with nothing.
func (x *extended) endWaitsLocked(which func(*wait) bool, now time.Time) {
	for _, w := range x.dropWaitsLocked(which) {
		x.answerLocked(answer{wait: w, at: now})
	}
}

// dropWaitsLocked ends waits without an answer.
func (x *extended) dropWaitsLocked(which func(*wait) bool) (dropped []*wait) {
	x.waits = slices.DeleteFunc(x.waits, func(w *wait) bool {
		if !which(w) {
			return false
		}
		x.agenda.drop(w.over)
		dropped = append(dropped, w)
		return true
	})
	return dropped
}

// give answers a claim that has waited. If its worker has gone meanwhile, the runs are
// available again: nobody has heard of them.
func (x *extended) give(a answer) {
	reply, err := x.hand(a.taken, a.at)
	if err == nil && a.wait.later.Answer(reply) {
		return
	}
	s := x.service
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, g := range a.taken {
		if !g.owner.lost(g.run) && !g.run.state.Final() {
			x.takeBackLocked(g.run, NotJoined, time.Now())
		}
	}
}

// hand makes the reply to a claim of the runs that it gets. Signing tokens takes
// time; who loses a run meanwhile does not get it.
func (x *extended) hand(taken []given, claimed time.Time) (phoenix.Reply, error) {
	s := x.service
	err := s.sign(taken, claimed)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		return phoenix.Reply{}, err
	}
	taken = slices.DeleteFunc(taken, func(g given) bool { return g.owner.lost(g.run) || g.run.state.Final() })
	for _, g := range taken {
		x.beginLocked(g)
	}
	return phoenix.OK(claimResponse(taken)), nil
}
