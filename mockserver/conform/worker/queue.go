package worker

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/phxworker/phxworker/mockserver/conform/suite"
	"github.com/phxworker/phxworker/mockserver/fault"
)

// quiet is a back-off in which only a wake-up, or a slot that is freed, brings a claim.
var quiet = [2]time.Duration{5 * time.Minute, 5 * time.Minute}

// queueTrials are about worker:queue: what is claimed, when, and how much.
func queueTrials() []trial {
	return []trial{
		{Case: suite.Case{
			ID: "W2.1", Title: "its join tells its capacity and its queues", Level: suite.Should,
			Why:    "Lightning's presence shows what workers there are, and people scale by it.",
			Source: "Lightning: WorkerChannel.join/3 reads capacity; queues since 2.15",
		}, setup: setup{capacity: 3}, do: func(l *lab) {
			var told struct {
				Capacity *int
				Queues   map[string]int
			}
			join := l.joins(queueTopic)[0]
			if join.into(&told); told.Capacity == nil || *told.Capacity != 3 {
				l.Failf("the capacity 3 in the join", "%s", join.payload)
			}
			if sum(told.Queues) != 3 {
				l.Failf("queues in the join, with 3 slots together", "%s", join.payload)
			}
		}},
		{Case: suite.Case{
			ID: "W2.2", Title: "a claim has demand, worker_name and queues", Level: suite.Must,
			Why:    "Without demand or worker_name the channel crashes, and without queues the order of the slots does not count.",
			Source: "Lightning: WorkerChannel.handle_in(\"claim\", …)",
		}, do: checkClaimShape},
		{Case: suite.Case{
			ID: "W2.3", Title: "it never claims more than it has slots for", Level: suite.Must,
			Why:    "A run that is claimed and waits for a slot is lost with its time limit, while other workers are idle.",
			Source: "OpenFn/kit#1041; docs/design.md",
		}, setup: setup{capacity: 2}, do: func(l *lab) {
			l.executeAll(8, codeShort)
			l.checkSlots(2)
		}},
		{Case: suite.Case{
			ID: "W2.4", Title: "claims that wait for their answer count as slots that are taken", Level: suite.Must,
			Why:    "Wake-ups that come while claims are under way make a worker claim for slots that it has not got.",
			Source: "OpenFn/kit#1041",
		}, setup: setup{capacity: 2, faults: []fault.Rule{{Event: "claim", Action: fault.Delay, Delay: 300 * time.Millisecond, Count: 6}}}, do: func(l *lab) {
			var ids []string
			for range 4 {
				ids = append(ids, l.enqueue(one(codeShort)))
			}
			for range 200 {
				l.server.Wake()
			}
			l.awaitEnds(ids)
			l.checkSlots(2)
		}},
		{Case: suite.Case{
			ID: "W2.5", Title: "a thousand wake-ups bring few claims", Level: suite.Should,
			Why:    "Each claim is a transaction at the server; when a thousand runs are created, each worker is woken a thousand times.",
			Source: "Lightning: work-available at each run that is created; phxworker: wake-ups coalesce",
		}, setup: setup{backoff: quiet}, do: func(l *lab) {
			before := len(l.sent("claim"))
			for range 1000 {
				l.server.Wake()
			}
			l.watch(500 * time.Millisecond)
			if n := len(l.sent("claim")) - before; n > 300 {
				l.Failf("less than one claim for three wake-ups", "%d claims for 1,000", n)
			}
		}},
		{Case: suite.Case{
			ID: "W2.6", Title: "a wake-up brings a claim in less than 100 ms", Level: suite.Should,
			Why:    "Somebody waits at a webhook for the run; without the wake-up it starts up to ten seconds later.",
			Source: "OpenFn/lightning#4498; Lightning: work-available",
		}, setup: setup{backoff: quiet}, do: checkWake},
		{Case: suite.Case{
			ID: "W2.7", Title: "the answer to a claim is good however late it comes", Level: suite.Must,
			Why:    "The server has given the run away: a worker that does not listen any more has lost it.",
			Source: "Lightning: a claim may take 15 s, and is not rolled back; ws-worker: WORKER_CLAIM_TIMEOUT_SECONDS is an hour",
		}, setup: setup{patience: time.Second, backoff: quiet, faults: []fault.Rule{{Event: "claim", Skip: 1, Action: fault.Delay, Delay: 2500 * time.Millisecond, Count: -1}}}, do: func(l *lab) {
			l.awaitClaim()
			l.reason(l.execute(one(codeCount)), "success")
		}},
		{Case: suite.Case{
			ID: "W2.8", Title: "an answer that comes twice starts its run once", Level: suite.Must,
			Why:    "A run that is executed twice sends its e-mails twice.",
			Source: "Phoenix: the second reply has a ref that nobody waits for",
		}, setup: setup{capacity: 2, faults: []fault.Rule{{Event: "claim", Action: fault.Double, Count: -1}}}, do: func(l *lab) {
			id := l.enqueue(one(codeShort))
			record := l.awaitEnd(id)
			l.reason(record, "success")
			l.watch(300 * time.Millisecond)
			if n := len(applied(l.record(id), "step:start")); n != 1 || len(l.joins("run:"+id)) != 1 {
				l.Failf("one join of the run and one step", "%s, %s", plural(len(l.joins("run:"+id)), "join"), plural(n, "step"))
			}
		}},
		{Case: suite.Case{
			ID: "W2.9", Title: "it claims again after claims were refused, and not at once", Level: suite.Must,
			Why:    "A database that is too busy to answer gets better only when it is asked less.",
			Source: "Lightning: a claim whose transaction fails is an error; ws-worker: back-off",
		}, setup: setup{faults: []fault.Rule{{Event: "claim", Action: fault.Refuse, Response: json.RawMessage(`{"reason":"busy"}`), Count: 3}}}, do: func(l *lab) {
			id := l.enqueue(one(codeCount))
			l.await("three claims", func() bool { return len(l.sent("claim")) >= 3 })
			claims := l.sent("claim")
			if took := claims[2].at.Sub(claims[0].at); took < 200*time.Millisecond {
				l.Failf("a pause after a claim that was refused", "three claims within %v", took.Round(time.Millisecond))
			}
			l.reason(l.awaitEnd(id), "success")
		}},
		{Case: suite.Case{
			ID: "W2.10", Title: "it claims only under a join that was accepted and still holds", Level: suite.Must,
			Why:    "What is pushed under another join is answered with \"unmatched topic\", or not at all, and the slot waits for it.",
			Source: "Phoenix: a push to a topic that is not joined",
		}, setup: setup{faults: []fault.Rule{
			{Event: "claim", Action: fault.Crash},
			{Event: fault.Join, Topic: queueTopic, Skip: 1, Action: fault.Delay, Delay: 700 * time.Millisecond, Count: -1},
		}}, do: checkClaimsJoined},
		{Case: suite.Case{
			ID: "W2.11", Title: "each group claims from its own queues, in its order", Level: suite.Must,
			Why:    "A slot that is kept for the fast lane and takes a slow run makes a webhook wait.",
			Source: "ws-worker: --workloops; Lightning: queues of a claim, in the order of preference",
		}, setup: setup{groups: "fast_lane:1 manual>*:1"}, do: func(l *lab) {
			want := []string{"fast_lane", "manual,*"}
			l.await("claims of both groups, for fast_lane and for manual,*", func() bool {
				seen := l.queuesAsked()
				return slices.Contains(seen, want[0]) && slices.Contains(seen, want[1])
			})
			for _, queues := range l.queuesAsked() {
				if !slices.Contains(want, queues) {
					l.Failf("claims for fast_lane, and for manual,*", "one for %s", queues)
				}
			}
		}},
		{Case: suite.Case{
			ID: "W2.12", Title: "a group that is full does not keep another from its runs", Level: suite.Must,
			Why:    "The fast lane is there so that it is free when all else is busy.",
			Source: "ws-worker: a loop for each group",
		}, setup: setup{groups: "fast_lane:1 manual>*:1"}, do: func(l *lab) {
			slow := l.enqueue(in("manual", one(codeLong)))
			l.awaitStart(slow)
			l.enqueue(in("manual", one(codeLong))) // and one more waits
			l.reason(l.execute(in("fast_lane", one(codeCount))), "success")
			if l.record(slow).State.Final() {
				l.Failf("the slow run to go on meanwhile", "it has ended: %s", l.record(slow).Reason)
			}
		}},
		{Case: suite.Case{
			ID: "W2.13", Title: "an idle worker claims now and then, and does not spin", Level: suite.Should,
			Why:    "Idle workers that ask 15 to 70 times a second are most of the load of a server's database.",
			Source: "ws-worker: --backoff 1/10; measured with ws-worker 1.25 after 500 runs",
		}, do: func(l *lab) {
			l.executeAll(3, codeCount)
			l.watch(200 * time.Millisecond)
			before := len(l.sent("claim"))
			l.watch(2 * time.Second)
			if n := len(l.sent("claim")) - before; n > 4 {
				l.Failf("four claims at most in two seconds without work, with a back-off of a second at the least", "%d", n)
			}
		}},
		{Case: suite.Case{
			ID: "W2.14", Title: "a slot that is freed claims at once", Level: suite.Must,
			Why:    "Nobody wakes the worker for runs that wait already: with a back-off in between, most of a queue's time is spent waiting.",
			Source: "ws-worker: a claim when a run is complete; docs/design.md",
			Limit:  40 * time.Second, // for three pauses
		}, setup: setup{backoff: quiet}, do: checkFreedSlot},
		{Case: suite.Case{
			ID: "W2.15", Title: "it takes as many runs at once as it has slots", Level: suite.Should,
			Why:    "A worker that says that it has room for two and takes one makes people pay for two.",
			Source: "ws-worker: --capacity",
		}, setup: setup{capacity: 2}, do: checkAtOnce},
		{Case: suite.Case{
			ID: "W2.16", Title: "a worker that was full when the connection was lost claims again afterwards", Level: suite.Must,
			Why:    "Its loop waits for a slot, misses the reconnect, and never asks again.",
			Source: "A bug that ws-worker and others had",
		}, setup: setup{backoff: quiet}, do: func(l *lab) {
			first := l.enqueue(one(codeWait))
			l.awaitStart(first)
			_ = l.server.Kick(fault.Abnormal) // the code is a good one
			second := l.enqueue(one(codeCount))
			l.reason(l.awaitEnd(first), "success")
			l.reason(l.awaitEnd(second), "success")
		}},
		{Case: suite.Case{
			ID: "W2.17", Title: "a claim whose answer was lost with the connection does not keep its slot", Level: suite.Must,
			Why:    "The slot waits for an answer that cannot come, for an hour.",
			Source: "OpenFn/kit#981, #993",
		}, setup: setup{backoff: quiet, faults: []fault.Rule{{Event: "claim", Action: fault.Drop, When: fault.After}}}, do: func(l *lab) {
			l.awaitBack(1)
			l.reason(l.execute(one(codeCount)), "success")
		}},
		{Case: suite.Case{
			ID: "W2.18", Title: "a run that it is given again while it executes it is executed once", Level: suite.Must,
			Why:    "A run that is executed twice sends its e-mails twice.",
			Source: "A server that was restored from before the claim gives the run again; phxworker: runner.ErrTwice",
		}, setup: setup{capacity: 2}, do: checkGivenTwice},
	}
}

// checkFreedSlot frees a slot some times while runs wait; the fastest claim counts, for the machine may be busy.
func checkFreedSlot(l *lab) {
	const times, limit = 3, 2 * time.Second
	expected := fmt.Sprintf("a claim within %v of the reply to run:complete", limit)
	var ids []string
	for range times + 1 {
		ids = append(ids, l.enqueue(one(codeShort)))
	}
	var pauses []time.Duration
	err := l.until(time.Hour, func() bool {
		pauses = l.pausesBeforeClaims()
		return len(pauses) >= times || len(pauses) > 0 && slices.Min(pauses) <= limit
	})
	switch {
	case err != nil && len(pauses) == 0:
		l.Fatalf(expected, "%s; %s", l.soFar(), err)
	case slices.Min(pauses) > limit:
		l.Fatalf(expected, "%v, the fastest of %d", slices.Min(pauses).Round(time.Millisecond), len(pauses))
	}
	l.awaitEnds(ids)
}

// pausesBeforeClaims returns how long after the reply to each run:complete the next claim came.
func (l *lab) pausesBeforeClaims() (all []time.Duration) {
	for _, end := range l.sent("run:complete") {
		reply, ok := l.answered(end)
		claims := l.where(func(f seen) bool { return f.sent && f.event == "claim" && f.place > end.place })
		if ok && len(claims) > 0 {
			all = append(all, max(0, claims[0].at.Sub(reply.at)))
		}
	}
	return all
}

// checkAtOnce has two runs wait for a worker with two slots.
func checkAtOnce(l *lab) {
	first, second := l.enqueue(one(codeLong)), l.enqueue(one(codeLong))
	l.await("two runs under way at once, each with its run:start", func() bool {
		return l.mostAtOnce() == 2 || len(l.sent("run:complete")) > 0
	})
	if l.mostAtOnce() < 2 {
		l.Skipf("the worker ended the first run before the second had begun, so that nothing is known of how many it takes at once")
	}
	l.awaitStart(first)
	l.awaitStart(second)
}

// mostAtOnce is how many runs were under way at once, at the most: from run:start to run:complete.
func (l *lab) mostAtOnce() (most int) {
	running := make(map[string]bool)
	for _, f := range l.where(func(f seen) bool { return f.sent }) {
		switch f.event {
		case "run:start":
			running[f.run()] = true
		case "run:complete":
			delete(running, f.run())
		}
		most = max(most, len(running))
	}
	return most
}

// checkGivenTwice answers a claim with the run that the worker executes already.
func checkGivenTwice(l *lab) {
	id := l.enqueue(chain(codeBeyondLease, codeBeyondLease)) // a worker may rest for its back-off of a second before it claims again
	l.awaitStart(id)
	again, _ := json.Marshal(fields{"runs": []fields{{"id": id, "token": l.given()[0].Token}}}) // texts
	l.addFault(fault.Rule{Event: "claim", Action: fault.Answer, Response: again})
	l.server.Wake()
	l.await("a claim for the second slot, which is answered with the same run", func() bool { return len(l.given()) > 1 })
	if l.record(id).State.Final() { // on a slow machine
		l.Skipf("the run was over before it could be given a second time")
	}
	before := len(l.sent("claim"))
	stop := l.wakeAllTheTime()
	over := func() bool { return l.record(id).State.Final() }
	l.await("another claim", func() bool { return len(l.sent("claim")) > before || over() })
	stop()
	if over() {
		l.Failf("another claim while the run goes on, for the second slot is free", "none")
	}
	l.reason(l.awaitEnd(id), "success")
	steps := l.where(func(f seen) bool { return f.sent && f.run() == id && f.event == "step:start" })
	if len(steps) != 2 {
		l.Failf("two times step:start, one for each of its jobs", "%d", len(steps))
	}
}

func checkClaimShape(l *lab) {
	l.server.Wake()
	l.awaitClaim()
	for _, claim := range l.sent("claim") {
		var told struct {
			Demand int
			Queues []string
		}
		if claim.into(&told); told.Demand < 1 {
			l.Failf("a demand of 1 at least", "%s", claim.payload)
		}
		if !claim.has("worker_name") {
			l.Failf("the field worker_name, a text or null", "%s", claim.payload)
		}
		if !slices.Equal(told.Queues, []string{"manual", "*"}) {
			l.Failf("the queues manual and *, which a capacity stands for", "%s", claim.payload)
		}
	}
}

// checkWake wakes an idle worker some times; the fastest counts, for the machine may be busy.
func checkWake(l *lab) {
	const times, limit = 5, 100 * time.Millisecond
	l.awaitClaim()
	l.watch(300 * time.Millisecond) // for the claims of its start
	fastest := time.Hour
	for range times {
		before := len(l.sent("claim"))
		woken := time.Now()
		l.server.Wake()
		if l.until(2*time.Second, func() bool { return len(l.sent("claim")) > before }) == nil {
			fastest = min(fastest, l.sent("claim")[before].at.Sub(woken))
		}
		l.watch(50 * time.Millisecond)
	}
	switch {
	case fastest == time.Hour:
		l.Failf("a claim after a work-available", "none within two seconds, five times")
	case fastest >= limit:
		l.Failf("a claim within 100 ms of a work-available", "%v, the fastest of five", fastest.Round(time.Millisecond))
	}
}

func checkClaimsJoined(l *lab) {
	l.server.Wake()
	l.await("the channel to crash", func() bool {
		return len(l.where(func(f seen) bool { return f.event == "phx_error" })) > 0
	})
	stop := l.wakeAllTheTime()
	l.awaitBack(1)
	_ = l.server.Kick(fault.Abnormal) // the code is a good one
	l.awaitBack(2)
	stop()
	l.reason(l.execute(one(codeCount)), "success")
	for i, claim := range l.frames {
		if claim.sent && claim.event == "claim" && !l.joinedAt(i, claim) {
			l.Fatalf("no claim but under the join_ref of a join that was accepted", "%s", claim.text)
		}
	}
}

// joinedAt reports whether a frame, the i-th, was sent under a join of its topic that had been accepted and
// had not ended.
func (l *lab) joinedAt(i int, push seen) bool {
	holds := false
	for _, f := range l.frames[:i] {
		if f.socket != push.socket || f.topic != push.topic || f.joinRef != push.joinRef {
			continue
		}
		switch {
		case f.event == "phx_reply" && f.ref == f.joinRef && f.isOK():
			holds = true
		case !f.sent && (f.event == "phx_error" || f.event == "phx_close"):
			// A claim may have been on its way when this went out.
			holds = push.at.Sub(f.at) < crossing
		}
	}
	return holds
}

// crossing is how long a frame, or a signal, may be under way when a frame comes the other way. A busy machine needs that
// much; the cases wait for longer.
const crossing = 500 * time.Millisecond

// wakeAllTheTime wakes the worker every few milliseconds until the function that it returns is called.
func (l *lab) wakeAllTheTime() (stop func()) {
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		ticker := time.NewTicker(20 * time.Millisecond)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				l.server.Wake()
			case <-quit:
				return
			case <-l.Context().Done():
				return
			}
		}
	}()
	return func() {
		close(quit)
		<-done
	}
}

// checkSlots goes through all frames and counts the slots that are taken: by claims that wait for their
// answer, and by runs from the answer to their run:complete.
func (l *lab) checkSlots(slots int) {
	waiting := make(map[string]int) // demand, by socket and ref
	running := make(map[string]bool)
	for _, f := range l.frames {
		key := fmt.Sprint(f.socket, " ", f.ref)
		switch {
		case f.sent && f.event == "claim":
			var told struct{ Demand int }
			f.into(&told)
			waiting[key] = told.Demand
			if taken := sum(waiting) + len(running); taken > slots {
				l.Fatalf(fmt.Sprintf("no claim beyond the %d slots", slots),
					"with this one %d were asked for or taken: %s, and %s", taken, plural(sum(waiting), "unanswered demand"), plural(len(running), "run"))
			}
		case f.event == "phx_reply" && f.topic == queueTopic:
			delete(waiting, key)
			var body struct{ Response struct{ Runs []given } }
			f.into(&body)
			for _, g := range body.Response.Runs {
				running[g.ID] = true
			}
		case f.sent && f.event == "run:complete":
			delete(running, f.run())
		}
	}
}

func sum[K comparable](counts map[K]int) (total int) {
	for _, n := range counts {
		total += n
	}
	return total
}

// executeAll queues runs and waits for all of them to succeed. The worker is woken once for each.
func (l *lab) executeAll(n int, code string) {
	var ids []string
	for range n {
		ids = append(ids, l.enqueue(one(code)))
	}
	l.awaitEnds(ids)
}

func (l *lab) awaitEnds(ids []string) {
	pending := ids
	l.await(plural(len(ids), "run")+" to be reported with run:complete", func() bool {
		for len(pending) > 0 && l.record(pending[0]).State.Final() {
			pending = pending[1:]
		}
		return len(pending) == 0
	})
	for _, id := range ids {
		l.reason(l.record(id), "success")
	}
}

// awaitClaim waits for a claim that was answered.
func (l *lab) awaitClaim() {
	l.await("a claim on worker:queue", func() bool {
		return slices.ContainsFunc(l.sent("claim"), func(claim seen) bool {
			_, ok := l.answered(claim)
			return ok
		})
	})
}

// awaitStart waits for the first step of a run.
func (l *lab) awaitStart(id string) {
	l.await("a step of the run to be started", func() bool { return len(applied(l.record(id), "step:start")) > 0 })
}

// queuesAsked returns the queues of each claim, as one text.
func (l *lab) queuesAsked() (all []string) {
	for _, claim := range l.sent("claim") {
		var told struct{ Queues []string }
		claim.into(&told)
		all = append(all, strings.Join(told.Queues, ","))
	}
	return all
}
