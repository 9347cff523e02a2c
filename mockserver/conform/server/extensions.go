package server

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/phxworker/phxworker/mockserver"
	"github.com/phxworker/phxworker/mockserver/conform/suite"
)

// What a server may announce, and on which topic; docs/extensions has a page of each.
var (
	queueNames = []string{"lease", "attempt", "release", "longpoll", "claim_ack", "status", "drain"}
	runNames   = []string{"lease", "cancel", "notify"}
)

// termLimit is enough for two terms of the longest kind, and leaseLimit for three.
const (
	termLimit  = 2*longestTerm + time.Minute
	leaseLimit = 3*longestTerm + time.Minute
)

var extensionCases = []entry{
	{suite.Case{
		ID: "S6.1", Level: suite.Must, Title: "what is announced was offered, in version 1, with the terms of its page",
		Why:    "A worker reads the terms; one that is missing is a time of nothing.",
		Source: ofOurs + "README.md, rules 1 and 2",
	}, termsOf},
	{suite.Case{
		ID: "S6.2", Level: suite.Must, Title: "an offer that cannot be read is no offer, and the worker is let in",
		Why:    "A worker must not be locked out over what is optional.",
		Source: ofOurs + "README.md",
	}, oddOffers},
	{suite.Case{
		ID: "S6.3", Level: suite.Must, Title: "what was not agreed on with this join is not heeded",
		Why:    "A worker that did not agree does not know what it has done: the run would be executed by two.",
		Source: ofOurs + "README.md, rule 3",
	}, notAgreed},
	{suite.Case{
		ID: "S6.4", Level: suite.Must, Title: "attempt: the first is 1, one more after a requeue, and as it was after a postponement",
		Why:    "By the number a worker ends a run that kills workers; one that counts too fast ends good runs.",
		Source: ofOurs + "attempt.md",
	}, attempts},
	{suite.Case{
		ID: "S6.5", Level: suite.Must, Title: "release: a run that is returned can be claimed again, under a new token, and the old one is good for nothing",
		Why:    "A worker that stops returns what it has not begun; kept by the server as its own, the run would be lost.",
		Source: ofOurs + "release.md",
	}, release},
	{suite.Case{
		ID: "S6.6", Level: suite.Must, Title: "release: the topic of a run that is returned is closed",
		Why:    "Who has returned it must not report of it any more.",
		Source: ofOurs + "release.md",
	}, releaseCloses},
	{suite.Case{
		ID: "S6.7", Level: suite.Must, Title: "release: with another token, or once the run is over, it is refused with not_claimed",
		Why:    "The id alone is no proof: anybody could take a run from its worker.",
		Source: ofOurs + "release.md",
	}, releaseRefused},
	{suite.Case{
		ID: "S6.8", Level: suite.Must, Title: "release: a run with a delay is given to nobody before it is over, and to somebody then",
		Why:    "What was to be tried again later is tried at once, again and again.",
		Source: ofOurs + "release.md",
	}, releaseDelayed},
	{suite.Case{
		ID: "S6.9", Level: suite.Should, Title: "release: a run that is returned has its old place in the queue",
		Why:    "Behind all the others it might never have its turn.",
		Source: ofOurs + "release.md, what the server must take care of",
	}, releasedInOrder},
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

// announced returns the terms of what the server has announced in the answer to a join.
func announced(t *topic) map[string]map[string]any {
	var response struct {
		Extensions map[string]map[string]any `json:"extensions"`
	}
	_ = json.Unmarshal(t.joined.payload, &response) // then nothing is announced
	return response.Extensions
}

// with joins worker:queue and agrees on extensions; without them the case is not tried.
func (c *client) with(names ...string) *topic {
	q := c.queue(names...)
	for _, name := range names {
		if announced(q)[name] == nil {
			c.s.t.Skipf("the server announces no %s", name)
		}
	}
	return q
}

// term returns a duration that the server has announced. One that the kit cannot wait for ends the case.
func (t *topic) term(extension, field string) time.Duration {
	ms, _ := announced(t)[extension][field].(float64)
	d := time.Duration(ms) * time.Millisecond
	switch {
	case d <= 0:
		t.c.s.t.Fatalf(field+" of "+extension+" to be a number of milliseconds", "%v", announced(t)[extension][field])
	case d > longestTerm:
		t.c.s.t.Skipf("%s of %s is %v: start the server with %v at most", field, extension, d, longestTerm)
	}
	return d
}

var terms = map[string][]string{
	"lease": {"duration_ms"}, "longpoll": {"max_wait_ms"}, "claim_ack": {"timeout_ms"}, "status": {"interval_ms", "timeout_ms"},
}

func termsOf(s *session) {
	c := s.connect()
	q := c.queue(append(slices.Clone(queueNames), "cancel", "kit")...)
	if len(announced(q)) == 0 {
		s.t.Skipf("the server announces no extension")
	}
	s.wantTerms(q, queueNames)
	r := c.run(q.claimRun(s.enqueue(mockserver.Run{})), append(slices.Clone(runNames), "release", "kit")...)
	s.wantTerms(r, runNames)
	few := s.connect().queue("kit")
	s.wantTerms(few, nil)
}

// wantTerms looks at what was announced on a topic, on which there may be these.
func (s *session) wantTerms(t *topic, names []string) {
	for name, has := range announced(t) {
		if !slices.Contains(names, name) {
			s.t.Failf(fmt.Sprintf("nothing but %q to be announced on %s", names, t.name), "%s", short(t.joined.payload))
		}
		for _, field := range terms[name] {
			if ms, ok := has[field].(float64); !ok || ms <= 0 {
				s.t.Failf(name+" to have the term "+field+", in milliseconds", "%v", has)
			}
		}
		if v, _ := has["v"].(float64); v != 1 {
			s.t.Failf(name+" to be announced in version 1", "%v", has)
		}
	}
}

func oddOffers(s *session) {
	if len(announced(s.connect().queue(queueNames...))) == 0 {
		s.t.Skipf("the server announces no extension")
	}
	for _, offer := range []string{`null`, `[]`, `"all"`, `7`, `{"lease":0}`, `{"lease":"1"}`, `{"lease":null}`, `{"lease":{}}`} {
		q := s.connect().join("worker:queue", `{"capacity":1,"queues":{},"extensions":`+offer+`}`)
		if !q.joined.ok() || len(announced(q)) > 0 {
			s.t.Failf("a join with the extensions "+offer+" to be answered with ok and none", "%s", q.joined)
		}
	}
}

func releaseOf(run given, reason string, delay time.Duration) string {
	return payload{"id": run.ID, "token": run.Token, "reason": reason, "delay_ms": delay.Milliseconds()}.String()
}

func notAgreed(s *session) {
	s.connect().with("release")
	id := s.enqueue(mockserver.Run{})
	c := s.connect()
	q := c.queue()
	run := q.claimRun(id)
	r := c.run(run)
	if a := q.ask("run:release", releaseOf(run, "drain", 0)); a.ok() {
		s.t.Fatalf("run:release not to be heeded on a join that has not agreed on it", "%s", a)
	}
	s.lives(c)
	s.connect().queue().empty("the run is its worker's, who has not agreed on release")
	r.must("run:start", payload{"timestamp": now()}.String())
}

func attempts(s *session) {
	q := s.connect().with("attempt", "release")
	id := s.enqueue(mockserver.Run{})
	want := 1
	for _, reason := range []string{"postpone", "requeue", "drain", "prefetch", "requeue", ""} {
		run := q.claimRun(id)
		if run.Attempt != want {
			s.t.Fatalf(fmt.Sprintf("attempt %d", want), "%d", run.Attempt)
		}
		if reason == "" {
			break
		}
		q.must("run:release", releaseOf(run, reason, 0))
		if reason == "requeue" {
			want++
		}
	}
	plain := s.connect()
	another := s.enqueue(mockserver.Run{})
	if run := plain.queue().claimRun(another); run.Attempt != 0 || run.LeaseMS != 0 {
		s.t.Fatalf("no attempt and no lease_ms for a worker that has agreed on nothing", "%+v", given{Attempt: run.Attempt, LeaseMS: run.LeaseMS})
	}
}

func release(s *session) {
	q := s.connect().with("release")
	id := s.enqueue(mockserver.Run{})
	run := q.claimRun(id)
	q.must("run:release", releaseOf(run, "drain", 0))
	c := s.connect()
	again := c.queue().claimRun(id)
	if again.Token == run.Token {
		s.t.Fatalf("another token than the one that was returned", "the same")
	}
	q.c.shut(id, payload{"token": run.Token}.String())
	r := c.run(again)
	r.must("run:start", payload{"timestamp": now()}.String())
	r.must("run:complete", completed)
}

func releaseCloses(s *session) {
	c := s.connect()
	q := c.with("release")
	run := q.claimRun(s.enqueue(mockserver.Run{}))
	r := c.run(run)
	ref := q.send("run:release", releaseOf(run, "requeue", 0))
	if _, err := r.pushed(closeEvent, patience); err != nil {
		s.t.Fatalf("a phx_close on the run's topic", "%v", err)
	}
	if a := q.await(ref); !a.ok() {
		s.t.Fatalf("the release to be answered with ok", "%s", a)
	}
	if a := r.ask("run:complete", completed); a.ok() {
		s.t.Fatalf("the run's end not to be taken from who has returned it", "%s", a)
	}
}

// notClaimed wants a release to be refused.
func (t *topic) notClaimed(run given) {
	a := t.ask("run:release", releaseOf(run, "requeue", 0))
	if !a.refused() || reason(a) != "not_claimed" {
		t.c.s.t.Fatalf(`the release to be refused with {"reason":"not_claimed"}`, "%s", a)
	}
}

// reason is that of a refusal.
func reason(a answer) string {
	var response struct{ Reason string }
	_ = json.Unmarshal(a.payload, &response) // then there is none
	return response.Reason
}

func releaseRefused(s *session) {
	c := s.connect()
	q := c.with("release")
	id := s.enqueue(mockserver.Run{})
	run := q.claimRun(id)
	r := c.run(run)
	q.notClaimed(given{ID: id, Token: run.Token + "x"})
	q.notClaimed(given{ID: uuid.NewString(), Token: run.Token})
	r.must("run:start", payload{"timestamp": now()}.String()) // it is still there
	r.must("run:complete", completed)
	q.notClaimed(run)
	q.empty("the only run is over")
}

func releaseDelayed(s *session) {
	const delay = 700 * time.Millisecond
	q := s.connect().with("release")
	id := s.enqueue(mockserver.Run{})
	run := q.claimRun(id)
	q.must("run:release", releaseOf(run, "postpone", delay))
	began := time.Now()
	other := s.connect().queue()
	for time.Since(began) < delay/2 {
		other.empty("the run's delay is not over")
		s.wait(delay / 10)
	}
	if !s.eventually(delay+patience, func() bool { return has(other.claim(1, everyQueue...), id) }) {
		s.t.Fatalf("the run to be given away once its delay is over", "nothing, %v after the release", time.Since(began))
	}
}

func has(runs []given, id string) bool {
	return slices.ContainsFunc(runs, func(run given) bool { return run.ID == id })
}

func releasedInOrder(s *session) {
	q := s.connect().with("release")
	first := s.enqueue(mockserver.Run{})
	run := q.claimRun(first)
	second := s.enqueue(mockserver.Run{})
	q.must("run:release", releaseOf(run, "drain", 0))
	s.claimedInOrder(everyQueue, []string{first, second})
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
