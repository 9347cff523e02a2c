package server

import (
	"encoding/json"
	"time"

	"github.com/phxworker/phxworker/mockserver"
	"github.com/phxworker/phxworker/mockserver/conform/suite"
)

var leaseCases = []entry{
	{suite.Case{
		ID: "S7.1", Level: suite.Must, Title: "lease: a claim says for how long each run is the worker's, and the run's topic knows leases too",
		Why:    "A worker counts from the answer on; a topic without leases makes every run its worker's for good.",
		Source: ofOurs + "lease.md",
	}, leaseTold},
	{suite.Case{
		ID: "S7.2", Level: suite.Must, Title: "lease: run:renew is answered with the milliseconds from now on",
		Why:    "A worker that hears nothing, or nothing it can read, gives its run up when the lease is over.",
		Source: ofOurs + "lease.md",
	}, renew},
	{suite.Case{
		ID: "S7.3", Level: suite.Must, Limit: leaseLimit, Title: "lease: a run whose lease is over goes to another worker, under another token",
		Why:    "Its worker has died, is frozen, or cut off: the run would be lost.",
		Source: ofOurs + "lease.md",
	}, leaseOver},
	{suite.Case{
		ID: "S7.4", Level: suite.Must, Limit: leaseLimit, Title: "lease: who has lost a run is told: its topic is closed, and it is refused with lease_lost",
		Why:    "Only by that word it lets go of the run quietly; what it reports all the same must change nothing.",
		Source: ofOurs + "lease.md, remember the old tokens",
	}, leaseLost},
	{suite.Case{
		ID: "S7.5", Level: suite.Must, Limit: leaseLimit, Title: "lease: a run that is renewed in time stays its worker's",
		Why:    "Every run longer than a lease would be executed twice.",
		Source: ofOurs + "lease.md",
	}, leaseKept},
	{suite.Case{
		ID: "S7.6", Level: suite.Must, Limit: leaseLimit, Title: "lease: a lost connection ends nothing: the worker joins again, renews, and goes on",
		Why:    "Connections are lost every day, and come back within seconds.",
		Source: ofOurs + "lease.md, a disconnect ends nothing",
	}, leaseAfterDisconnect},
	{suite.Case{
		ID: "S7.7", Level: suite.Must, Limit: leaseLimit, Title: "lease: a run whose topic is joined without leases stays its worker's",
		Why:    "Who cannot renew would lose each run that is longer than a lease.",
		Source: ofOurs + "lease.md, the server forgets the lease",
	}, leaseForgotten},
	{suite.Case{
		ID: "S7.8", Level: suite.Must, Limit: leaseLimit, Title: "lease: a run that was completed in time does not come back",
		Why:    "It would be executed again, though it is over.",
		Source: ofOurs + "lease.md, run:complete was recorded",
	}, leaseCompleted},
	{suite.Case{
		ID: "S7.9", Level: suite.Must, Limit: leaseLimit, Title: "lease: a run whose lease was over is another attempt",
		Why:    "A run that freezes each of its workers would go round for ever.",
		Source: ofOurs + "attempt.md",
	}, leaseCounts},
}

// leased takes a run to its joined topic, with a lease.
func (s *session) leased() (c *client, r *topic, run given, term time.Duration) {
	c = s.connect()
	q := c.with("lease")
	term = q.term("lease", "duration_ms")
	run = q.claimRun(s.enqueue(mockserver.Run{}))
	return c, c.run(run, "lease"), run, term
}

func leaseTold(s *session) {
	c := s.connect()
	q := c.with("lease")
	run := q.claimRun(s.enqueue(mockserver.Run{}))
	if run.LeaseMS <= 0 {
		s.t.Fatalf("lease_ms of the run to be a number of milliseconds", "%d", run.LeaseMS)
	}
	if r := c.run(run, "lease"); announced(r)["lease"] == nil {
		s.t.Fatalf("the lease to be announced on the run's topic as well", "%s", r.joined)
	}
}

func renew(s *session) {
	c := s.connect()
	q := c.with("lease")
	r := c.run(q.claimRun(s.enqueue(mockserver.Run{})), "lease")
	r.renew()
	r.must("run:complete", completed)
	if a := r.ask("run:renew", `{}`); a.ok() {
		s.t.Fatalf("a run that is over not to be renewed", "%s", a)
	}
}

// renew begins the lease of a run anew.
func (t *topic) renew() {
	var response struct {
		LeaseMS int64 `json:"lease_ms"`
	}
	if answer := t.must("run:renew", `{}`); json.Unmarshal(answer, &response) != nil || response.LeaseMS <= 0 {
		t.c.s.t.Fatalf(`{"lease_ms":…}, a number of milliseconds`, "%s", short(answer))
	}
}

func leaseOver(s *session) {
	_, _, run, term := s.leased()
	c := s.connect()
	again := s.givenAgain(c.queue(), run.ID, term)
	if again.Token == run.Token {
		s.t.Fatalf("another token than that of the first worker", "the same")
	}
	r := c.run(again)
	r.must("run:start", payload{"timestamp": now()}.String())
	r.must("run:complete", completed)
}

func leaseLost(s *session) {
	c, r, run, term := s.leased()
	r.must("run:start", payload{"timestamp": now()}.String())
	other := s.connect()
	again := s.givenAgain(other.queue(), run.ID, term)
	if _, err := r.pushed(closeEvent, patience); err != nil {
		s.t.Fatalf("a phx_close on the topic of the worker that has lost the run", "%v", err)
	}
	if a := r.ask("run:complete", completed); a.ok() {
		s.t.Fatalf("the run's end not to be taken from who has lost it", "%s", a)
	}
	if late := c.tryRun(run.ID, run.Token, "lease"); !late.joined.refused() || reason(late.joined) != "lease_lost" {
		s.t.Fatalf(`the old token to be refused with {"reason":"lease_lost"}`, "%s", late.joined)
	}
	next := other.run(again)
	next.must("run:start", payload{"timestamp": now()}.String())
	next.must("run:complete", completed)
}

func leaseKept(s *session) {
	_, r, run, term := s.leased()
	other := s.connect().queue()
	for range 5 {
		s.wait(term / 2)
		r.renew()
		other.empty("the run " + run.ID + " was renewed")
	}
	r.must("run:complete", completed)
}

func leaseAfterDisconnect(s *session) {
	c, r, run, term := s.leased()
	r.must("run:start", payload{"timestamp": now()}.String())
	c.close()
	s.wait(term / 3)
	c = s.connectAs(c.worker)
	r = c.run(run, "lease")
	r.renew()
	s.wait(term * 3 / 4) // the first lease would be over
	s.connect().queue().empty("the run was renewed after the reconnect")
	r.must("run:complete", completed)
}

func leaseForgotten(s *session) {
	c := s.connect()
	q := c.with("lease")
	term := q.term("lease", "duration_ms")
	run := q.claimRun(s.enqueue(mockserver.Run{}))
	r := c.run(run) // which offers nothing
	s.wait(term + term/2)
	s.connect().queue().empty("the run's worker cannot renew it")
	r.must("run:start", payload{"timestamp": now()}.String())
	r.must("run:complete", completed)
}

func leaseCompleted(s *session) {
	_, r, _, term := s.leased()
	r.must("run:start", payload{"timestamp": now()}.String())
	r.must("run:complete", completed)
	s.wait(term + term/2)
	s.connect().queue().empty("the only run is over")
}

func leaseCounts(s *session) {
	q := s.connect().with("lease", "attempt")
	term := q.term("lease", "duration_ms")
	run := q.claimRun(s.enqueue(mockserver.Run{}))
	q.c.run(run, "lease")
	if again := s.givenAgain(s.connect().with("attempt"), run.ID, term); again.Attempt != run.Attempt+1 {
		s.t.Fatalf("attempt 2", "%d, after %d", again.Attempt, run.Attempt)
	}
}
