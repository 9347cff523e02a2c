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
