package server

import (
	"fmt"
	"time"

	"github.com/phxworker/phxworker/mockserver"
	"github.com/phxworker/phxworker/mockserver/conform/suite"
)

// What a worker and a server wait for: a run, a join, a status.
var waitCases = []entry{
	{suite.Case{
		ID: "S6.10", Level: suite.Must, Title: "longpoll: a claim that waits gets the run that is queued meanwhile",
		Why:    "It is what it waits for.",
		Source: ofOurs + "longpoll.md",
	}, waitServed},
	{suite.Case{
		ID: "S6.11", Level: suite.Must, Title: "longpoll: a claim that waits is answered with nothing when its time is over",
		Why:    "A worker whose claim is not answered holds a slot for it.",
		Source: ofOurs + "longpoll.md",
	}, waitEnds},
	{suite.Case{
		ID: "S6.12", Level: suite.Must, Title: "longpoll: other pushes on the topic are answered while a claim waits",
		Why:    "A worker with two groups waits with two claims; its status would come late, and it would count as silent.",
		Source: ofOurs + "longpoll.md, do not wait in the channel",
	}, waitAside},
	{suite.Case{
		ID: "S6.13", Level: suite.Must, Title: "longpoll: a claim waits only under a join that has agreed on it",
		Why:    "A worker that did not agree does not expect to wait.",
		Source: ofOurs + "README.md, rule 3",
	}, waitNotAgreed},
	{suite.Case{
		ID: "S6.14", Level: suite.Must, Title: "longpoll: a claim whose worker has gone takes no run",
		Why:    "The run would be given to nobody.",
		Source: ofOurs + "longpoll.md, a wait ends with its topic",
	}, waitGone},
	{suite.Case{
		ID: "S6.15", Level: suite.Must, Limit: termLimit, Title: "claim_ack: a run whose topic nobody joins goes to another worker, as the same attempt",
		Why:    "Its worker went away before the answer, or died with it: the run would be lost.",
		Source: ofOurs + "claim-ack.md",
	}, notAcknowledged},
	{suite.Case{
		ID: "S6.16", Level: suite.Must, Limit: termLimit, Title: "claim_ack: a run whose topic was joined in time stays its worker's",
		Why:    "The join is the confirmation; a run that is taken all the same is executed twice.",
		Source: ofOurs + "claim-ack.md",
	}, acknowledged},
	{suite.Case{
		ID: "S6.17", Level: suite.Must, Title: "status: a status is answered with {}",
		Why:    "The worker waits for the answer before it sends the next.",
		Source: ofOurs + "status.md",
	}, status},
	{suite.Case{
		ID: "S6.18", Level: suite.Must, Limit: termLimit, Title: "status: the runs of a worker that is silent go to another",
		Why:    "It is frozen, or cut off: its lease may go on for long.",
		Source: ofOurs + "status.md",
	}, silent},
	{suite.Case{
		ID: "S6.19", Level: suite.Must, Limit: termLimit, Title: "status: a worker that tells keeps its runs, and so does one that never did",
		Why:    "A run that is taken from a worker that is well is executed twice.",
		Source: ofOurs + "status.md, a worker that has never sent a status is never silent",
	}, notSilent},
	{suite.Case{
		ID: "S6.20", Level: suite.Must, Title: "status: a worker that says it drains has its waiting claims answered, with nothing",
		Why:    "It waits for that answer with its stop.",
		Source: ofOurs + "status.md, longpoll.md",
	}, drainingAnswered},
}

// waiting sends a claim that waits.
func (t *topic) waiting(wait time.Duration) ref {
	p := claimOf(1, everyQueue)
	p["wait_ms"] = wait.Milliseconds()
	return t.send("claim", p.String())
}

func waitServed(s *session) {
	q := s.connect().with("longpoll")
	r := q.waiting(q.term("longpoll", "max_wait_ms"))
	if a, err := q.c.next(moment, func(f *frame) bool { return f.ref == r }); err == nil {
		s.t.Fatalf("a claim that may wait to be answered when there is a run", "%s at once", answer{frame: a})
	}
	id := s.enqueue(mockserver.Run{})
	began := time.Now()
	if runs := q.runsOf(q.await(r)); !has(runs, id) {
		s.t.Fatalf("the claim that waits to get the run "+id, "%s", ids(runs))
	}
	if took := time.Since(began); took > promptly {
		s.t.Fatalf(fmt.Sprintf("the answer within %v", promptly), "it after %v", took)
	}
}

func waitEnds(s *session) {
	const wait = 400 * time.Millisecond
	q := s.connect().with("longpoll")
	began := time.Now()
	if runs := q.runsOf(q.await(q.waiting(wait))); len(runs) > 0 {
		s.t.Fatalf("nothing, for nothing was queued", "%s", ids(runs))
	}
	if took := time.Since(began); took < wait*9/10 {
		s.t.Fatalf(fmt.Sprintf("the answer after %v", wait), "it after %v", took)
	}
}

func waitAside(s *session) {
	q := s.connect().with("longpoll")
	r := q.waiting(q.term("longpoll", "max_wait_ms"))
	began := time.Now()
	q.empty("nothing was queued") // a second claim, that does not wait
	if took := time.Since(began); took > promptly {
		s.t.Fatalf(fmt.Sprintf("a claim that does not wait to be answered within %v", promptly), "it after %v", took)
	}
	id := s.enqueue(mockserver.Run{})
	if runs := q.runsOf(q.await(r)); !has(runs, id) {
		s.t.Fatalf("the claim that waits to get the run "+id, "%s", ids(runs))
	}
}

func waitNotAgreed(s *session) {
	longest := s.connect().with("longpoll").term("longpoll", "max_wait_ms")
	q := s.connect().queue()
	began := time.Now()
	if runs := q.runsOf(q.await(q.waiting(longest))); len(runs) > 0 || time.Since(began) > promptly {
		s.t.Fatalf(fmt.Sprintf("nothing, within %v", promptly), "%s after %v", ids(runs), time.Since(began))
	}
}

func waitGone(s *session) {
	c := s.connect()
	q := c.with("longpoll")
	q.waiting(promptly)
	s.lives(c)
	c.close()
	s.wait(moment)
	id := s.enqueue(mockserver.Run{})
	s.connect().queue().claimRun(id)
}

func notAcknowledged(s *session) {
	q := s.connect().with("claim_ack", "attempt")
	term := q.term("claim_ack", "timeout_ms")
	id := s.enqueue(mockserver.Run{})
	run := q.claimRun(id)
	other := s.connect()
	q = other.with("attempt")
	again := s.givenAgain(q, id, term)
	if again.Token == run.Token || again.Attempt != 1 {
		s.t.Fatalf("the run under another token, as attempt 1: it was not begun", "attempt %d, with the token %s", again.Attempt, sameOrNot(again, run))
	}
	other.run(again)
	if late := s.connect().tryRun(id, run.Token); !late.joined.refused() || reason(late.joined) != "lease_lost" {
		s.t.Fatalf(`who comes too late to be refused with {"reason":"lease_lost"}`, "%s", late.joined)
	}
}

func sameOrNot(a, b given) string {
	if a.Token == b.Token {
		return "of before"
	}
	return "changed"
}

// givenAgain claims until the run is there, for a term and a little.
func (s *session) givenAgain(q *topic, id string, term time.Duration) (run given) {
	if !s.eventually(term+patience, func() bool {
		for _, got := range q.claim(1, everyQueue...) {
			if got.ID == id {
				run = got
			}
		}
		return run.ID != ""
	}) {
		s.t.Fatalf("another worker to get the run "+id, "nothing for %v", term+patience)
	}
	return run
}

func acknowledged(s *session) {
	c := s.connect()
	q := c.with("claim_ack")
	term := q.term("claim_ack", "timeout_ms")
	r := c.run(q.claimRun(s.enqueue(mockserver.Run{})))
	s.wait(term + moment)
	s.connect().queue().empty("the run's topic was joined in time")
	r.must("run:start", payload{"timestamp": now()}.String())
}

func statusOf(draining bool, runs ...string) string {
	return payload{
		"groups": payload{"manual>*": payload{"slots": 5, "open": 5 - len(runs), "claimed": 0, "running": len(runs)}},
		"runs":   append([]string{}, runs...), "draining": draining,
	}.String()
}

func status(s *session) {
	q := s.connect().with("status")
	if response := q.must("worker:status", statusOf(false)); !sameJSON(response, []byte(`{}`)) {
		s.t.Fatalf("{}", "%s", short(response))
	}
	q.must("worker:status", statusOf(true))
}

func silent(s *session) {
	c := s.connect()
	q := c.with("status")
	term := q.term("status", "timeout_ms")
	id := s.enqueue(mockserver.Run{})
	run := q.claimRun(id)
	r := c.run(run)
	q.must("worker:status", statusOf(false, id))
	again := s.givenAgain(s.connect().queue(), id, term)
	if again.Token == run.Token {
		s.t.Fatalf("another token than that of the silent worker", "the same")
	}
	if a := r.ask("run:complete", completed); a.ok() {
		s.t.Fatalf("the run's end not to be taken from a worker that has lost it", "%s", a)
	}
}

func notSilent(s *session) {
	tells, never := s.connect(), s.connect()
	q, other := tells.with("status"), never.with("status")
	term := q.term("status", "timeout_ms")
	var topics []*topic
	for _, q := range []*topic{q, other} {
		topics = append(topics, q.c.run(q.claimRun(s.enqueue(mockserver.Run{}))))
	}
	for range 6 {
		q.must("worker:status", statusOf(false))
		s.wait(term / 4)
	}
	s.connect().queue().empty("both runs are their workers'")
	for _, r := range topics {
		r.must("run:start", payload{"timestamp": now()}.String())
	}
}

func drainingAnswered(s *session) {
	q := s.connect().with("longpoll", "status")
	r := q.waiting(q.term("longpoll", "max_wait_ms"))
	began := time.Now()
	q.must("worker:status", statusOf(true))
	if runs := q.runsOf(q.await(r)); len(runs) > 0 || time.Since(began) > promptly {
		s.t.Fatalf(fmt.Sprintf("the claim to be answered within %v, with nothing", promptly), "%s after %v", ids(runs), time.Since(began))
	}
	id := s.enqueue(mockserver.Run{})
	q.must("worker:status", statusOf(true)) // it may have taken so long that the worker counts as silent
	if runs := q.claim(1, everyQueue...); len(runs) > 0 {
		s.t.Fatalf("nothing to be given to a worker that drains", "%s", ids(runs))
	}
	s.connect().queue().claimRun(id)
}
