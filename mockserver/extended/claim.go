package extended

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/phxworker/phxworker/mockserver/lightning"
	"github.com/phxworker/phxworker/mockserver/phoenix"
)

// wait is a claim that waits for a run.
type wait struct {
	channel *queueChannel
	request lightning.Claim
	later   *phoenix.Later
	over    *deadline
}

// answer is what a claim that waited is given; taken may be empty.
type answer struct {
	wait  *wait
	taken []*given
	at    time.Time
}

// given is a run that a claim gets, and its owner from now on.
type given struct {
	lightning.Given

	owner *owner
}

func (g *given) isLost() bool { return g.owner.lost(g.Run) || g.Run.StateLocked().Final() }

// claim answers a claim at once when there is a run for it, or else, if it says
// so, as soon as there is one. Those who came first are served first.
func (x *Service) claim(c *queueChannel, p phoenix.Push) phoenix.Reply {
	request, reason := lightning.ReadClaim(p)
	if reason != "" {
		return phoenix.Crash(reason)
	}
	request.Worker = c.member.id
	patience, reason := x.patience(c, request)
	if reason != "" {
		return phoenix.Crash(reason)
	}
	now := time.Now()
	x.Lock()
	if c.drained || c.member.draining {
		x.CountClaimLocked(request, 0)
		x.Unlock()
		return phoenix.OK(lightning.ClaimResponse(nil))
	}
	x.matchLocked(now)
	taken := x.takeLocked(c, request, now)
	if len(taken) == 0 && request.Demand > 0 && patience > 0 {
		w := &wait{channel: c, request: request}
		var reply phoenix.Reply
		w.later, reply = p.Defer()
		w.over = x.inLocked(patience, func(now time.Time) { x.endWaitsLocked(func(other *wait) bool { return other == w }, now) })
		x.waits = append(x.waits, w)
		x.Unlock()
		return reply
	}
	x.CountClaimLocked(request, len(taken))
	x.Unlock()
	reply, err := x.hand(taken, now)
	if err != nil {
		return phoenix.Crash(err.Error())
	}
	return reply
}

// patience is how long a claim is to wait.
func (x *Service) patience(c *queueChannel, request lightning.Claim) (d time.Duration, crash string) {
	raw, ok := request.Fields["wait_ms"]
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
func (x *Service) takeLocked(c *queueChannel, request lightning.Claim, now time.Time) []*given {
	isFor := func(r *lightning.Entry) bool { return x.isForLocked(r, c.member, now) }
	var taken []*given
	for _, g := range x.TakeLocked(request, isFor, now) {
		taken = append(taken, &given{Given: g, owner: x.ownLocked(c, g.Run, request.WorkerName, now)})
	}
	return taken
}

// matchLocked gives the runs there are to the claims that wait, in their order.
func (x *Service) matchLocked(now time.Time) {
	if !x.HasAvailableLocked() || len(x.waits) == 0 {
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

func (x *Service) answerLocked(a answer) {
	x.CountClaimLocked(a.wait.request, len(a.taken))
	x.answers = append(x.answers, a)
	x.stir()
}

// endWaitsLocked answers the waits with nothing.
func (x *Service) endWaitsLocked(which func(*wait) bool, now time.Time) {
	for _, w := range x.dropWaitsLocked(which) {
		x.answerLocked(answer{wait: w, at: now})
	}
}

// dropWaitsLocked ends waits without an answer.
func (x *Service) dropWaitsLocked(which func(*wait) bool) (dropped []*wait) {
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
// available again, for it has not heard of them.
func (x *Service) give(a answer) {
	reply, err := x.hand(a.taken, a.at)
	if err == nil && a.wait.later.Answer(reply) {
		return
	}
	x.Lock()
	defer x.Unlock()
	for _, g := range a.taken {
		if !g.isLost() {
			x.takeBackLocked(g.Run, NotJoined, time.Now())
		}
	}
}

// hand makes the reply to a claim of the runs that it gets. Signing tokens takes
// time; who loses a run meanwhile does not get it.
func (x *Service) hand(taken []*given, claimed time.Time) (phoenix.Reply, error) {
	signed := make([]lightning.Given, len(taken))
	for i, g := range taken {
		signed[i] = g.Given
	}
	if err := x.Sign(signed, claimed); err != nil {
		return phoenix.Reply{}, err
	}
	x.Lock()
	defer x.Unlock()
	var kept []lightning.Given
	for i, g := range taken {
		if g.Token = signed[i].Token; !g.isLost() {
			x.beginLocked(g)
			kept = append(kept, g.Given)
		}
	}
	return phoenix.OK(lightning.ClaimResponse(kept)), nil
}
