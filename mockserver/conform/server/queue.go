package server

import (
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/phxworker/phxworker/mockserver"
	"github.com/phxworker/phxworker/mockserver/conform/suite"
)

var queueCases = []entry{
	{suite.Case{
		ID: "S3.1", Level: suite.Must, Title: "a join of worker:queue that offers no extension is answered with ok and an object that names none",
		Why:    "A worker of another make has never heard of them, and may choke on what it did not ask for.",
		Source: ofLightning + "worker:queue answers {}; " + ofOurs + "README.md, rule 2",
	}, plainJoin},
	{suite.Case{
		ID: "S3.2", Level: suite.Must, Title: "a claim that finds nothing is answered at once with an empty list",
		Why:    "A worker whose claim is not answered holds a slot for it, and stops claiming when none is left.",
		Source: ofLightning + `claim answers {"runs":[]}`,
	}, emptyClaim},
	{suite.Case{
		ID: "S3.3", Level: suite.Must, Title: "a claim gets the run that was queued, with its id and a token",
		Why:    "It is what everything is for.",
		Source: ofLightning + `claim answers {"runs":[{"id","token"}]}`,
	}, oneRun},
	{suite.Case{
		ID: "S3.4", Level: suite.Must, Title: "no claim gets more runs than it demands",
		Why:    "A worker has no slot for what it did not ask for: such a run waits, or is lost.",
		Source: ofLightning + "demand is the LIMIT of the query",
	}, demandRespected},
	{suite.Case{
		ID: "S3.5", Level: suite.May, Title: "a claim that demands three of three runs gets them all",
		Why:    "A worker with free slots needs one message instead of three; one at a time is right as well, for workers claim again.",
		Source: ofLightning + "up to demand runs; " + ofWorker + "demand is always 1",
	}, demandMet},
	{suite.Case{
		ID: "S3.6", Level: suite.Must, Limit: manyLimit, Title: "each run goes to one of 50 workers that claim at once",
		Why:    "A run that two workers have is executed twice: two payments, two patients.",
		Source: ofLightning + "FOR UPDATE SKIP LOCKED in one transaction",
	}, fiftyClaimers},
	{suite.Case{
		ID: "S3.7", Level: suite.Should, Title: "runs of one queue are given away in the order in which they came",
		Why:    "The oldest waits longest, and people expect the order that they queued.",
		Source: ofLightning + "queue, then priority, then insertion",
	}, inOrder},
	{suite.Case{
		ID: "S3.8", Level: suite.Should, Title: "a run of immediate priority overtakes the others of its queue",
		Why:    "It is what somebody waits for at a screen.",
		Source: ofLightning + "queue, then priority, then insertion",
	}, immediateFirst},
	{suite.Case{
		ID: "S3.9", Level: suite.Must, Title: "a claim without the wildcard gets runs of the queues it names only",
		Why:    "Slots that are kept for the fast lane would be full of slow runs.",
		Source: ofLightning + "queues without * are a filter; " + ofWorker + "WORKER_WORKLOOPS",
	}, strictQueues},
	{suite.Case{
		ID: "S3.10", Level: suite.Must, Title: "a claim with the wildcard gets runs of queues that it does not name",
		Why:    "Runs of a queue that nobody names would wait for ever.",
		Source: ofLightning + "* takes the rest",
	}, wildcard},
	{suite.Case{
		ID: "S3.11", Level: suite.Should, Title: "with the wildcard, the queues named before it are preferred in their order",
		Why:    "What people start by hand is to come before what schedules start.",
		Source: ofLightning + "with * the list is a preference",
	}, preference},
	{suite.Case{
		ID: "S3.12", Level: suite.Should, Title: "a claim that names no queues gets runs",
		Why:    "Workers from before there were queues claim like this.",
		Source: ofLightning + `queues absent means ["manual","*"]`,
	}, noQueues},
	{suite.Case{
		ID: "S3.13", Level: suite.Should, Title: "every worker on worker:queue is told of a new run",
		Why:    "Without work-available a run waits for the back-off of a worker, which is up to 10 s.",
		Source: ofLightning + "work-available within 500 ms",
	}, wake},
	{suite.Case{
		ID: "S3.14", Level: suite.Must, Title: "a claim that says no demand gives nothing away, and harms its own topic at most",
		Why:    "A run given to who did not say how many it can take may be lost.",
		Source: ofLightning + "the channel crashes over a claim without demand",
	}, noDemand},
	{suite.Case{
		ID: "S3.15", Level: suite.Must, Title: "a worker that goes away while its claim is answered takes no other run with it",
		Why:    "Workers die at any moment; the run of that claim may be lost at some versions of Lightning, the next one may not.",
		Source: ofLightning + "some versions make the claim undone when the socket has gone (worker_channel.ex: rollback_claimed_runs), others do not: both are right here; " + ofOurs + "claim-ack.md for a server that does better",
	}, goneBeforeReply},
	{suite.Case{
		ID: "S3.16", Level: suite.Must, Title: "a run that was given away is not given again while its worker has it",
		Why:    "A run that two workers have is executed twice: two payments, two patients.",
		Source: ofLightning + "a claimed run is claimed until it is completed or lost",
	}, notTwice},
	{suite.Case{
		ID: "S3.17", Level: suite.Must, Title: "fields of a join and of a claim that the server does not know are ignored",
		Why:    "Each release of a worker tells a little more, and is older or newer than its server.",
		Source: ofLightning + "payloads are read by the keys that are known",
	}, unknownFields},
	{suite.Case{
		ID: "S3.18", Level: suite.Must, Title: "the token of a run verifies with the public key, names the run, and is good for its time",
		Why:    "Workers with WORKER_LIGHTNING_PUBLIC_KEY refuse a run whose token does not.",
		Source: ofLightning + "RS256, iss Lightning, id, nbf, exp; " + ofWorker + "WORKER_LIGHTNING_PUBLIC_KEY",
	}, verifiedToken},
}

func plainJoin(s *session) {
	q := s.connect().queue()
	var response map[string]json.RawMessage
	if json.Unmarshal(q.joined.payload, &response) != nil || response == nil || response["extensions"] != nil {
		s.t.Fatalf("an object without extensions, as {}", "%s", short(q.joined.payload))
	}
}

func emptyClaim(s *session) {
	q := s.connect().queue()
	began := time.Now()
	q.empty("nothing was queued")
	if took := time.Since(began); took > promptly {
		s.t.Fatalf(fmt.Sprintf("the answer within %v", promptly), "it after %v", took)
	}
	q.empty("nothing was queued")
}

func oneRun(s *session) {
	id := s.enqueue(mockserver.Run{})
	q := s.connect().queue()
	q.claimRun(id)
	q.empty("the only run was given away")
}

// enqueueMany queues runs and returns their ids.
func (s *session) enqueueMany(n int) (ids []string) {
	for range n {
		ids = append(ids, s.enqueue(mockserver.Run{}))
	}
	return ids
}

func demandRespected(s *session) {
	want := s.enqueueMany(5)
	q := s.connect().queue()
	if runs := q.claim(0, everyQueue...); len(runs) > 0 {
		s.t.Fatalf("a claim with the demand 0 to get nothing", "%s", ids(runs))
	}
	var got []string
	for range 5 {
		runs := q.claim(2, everyQueue...)
		if len(runs) > 2 {
			s.t.Fatalf("a claim with the demand 2 to get two runs at most", "%s", ids(runs))
		}
		for _, run := range runs {
			got = append(got, run.ID)
		}
	}
	s.same(got, want)
}

// same wants two lists to have the same ids, in any order.
func (s *session) same(got, want []string) {
	got, want = slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want))
	if !slices.Equal(got, want) {
		s.t.Fatalf(fmt.Sprintf("each of the runs %q once", want), "%q", got)
	}
}

func demandMet(s *session) {
	s.enqueueMany(3)
	if runs := s.connect().queue().claim(3, everyQueue...); len(runs) != 3 {
		s.t.Fatalf("a claim with the demand 3 to get the three runs that wait", "%s", ids(runs))
	}
}

func fiftyClaimers(s *session) {
	const claimers, runs = 50, 30
	queues := make([]*topic, claimers)
	for i := range queues {
		queues[i] = s.connect().queue()
	}
	want := s.enqueueMany(runs)
	refs := make([]ref, claimers)
	var got []string
	for range 3 { // who gets nothing may have come too early: each asks some times
		for i, q := range queues {
			refs[i] = q.send("claim", claimOf(1, everyQueue).String())
		}
		for i, q := range queues {
			for _, run := range q.runsOf(q.await(refs[i])) {
				got = append(got, run.ID)
			}
		}
	}
	s.same(got, want)
}

func inOrder(s *session) {
	want := s.enqueueMany(5)
	s.claimedInOrder(everyQueue, want)
}

// claimedInOrder claims runs one by one, and wants them in this order.
func (s *session) claimedInOrder(queues, want []string) {
	q := s.connect().queue()
	var got []string
	for range want {
		for _, run := range q.claim(1, queues...) {
			got = append(got, run.ID)
		}
	}
	if !slices.Equal(got, want) {
		s.t.Fatalf(fmt.Sprintf("the runs in this order: %q", want), "%q", got)
	}
}

func immediateFirst(s *session) {
	normal := s.enqueue(mockserver.Run{})
	immediate := s.enqueue(mockserver.Run{Priority: mockserver.Immediate})
	s.claimedInOrder(everyQueue, []string{immediate, normal})
}

func strictQueues(s *session) {
	s.enqueue(mockserver.Run{Queue: "default"})
	fast := s.enqueue(mockserver.Run{Queue: "fast_lane"})
	q := s.connect().queue()
	if runs := q.claim(2, "fast_lane"); len(runs) != 1 || runs[0].ID != fast {
		s.t.Fatalf("a claim of fast_lane to get the run "+fast+" of that queue alone", "%s", ids(runs))
	}
	if runs := q.claim(1, "fast_lane"); len(runs) > 0 {
		s.t.Fatalf("a claim of fast_lane to get nothing while runs of default wait", "%s", ids(runs))
	}
}

func wildcard(s *session) {
	id := s.enqueue(mockserver.Run{Queue: "fast_lane"})
	q := s.connect().queue()
	if runs := q.claim(1, "manual", "*"); len(runs) != 1 || runs[0].ID != id {
		s.t.Fatalf("a claim of manual and the wildcard to get the run "+id+" of fast_lane", "%s", ids(runs))
	}
}

func preference(s *session) {
	other := s.enqueue(mockserver.Run{Queue: "default"})
	fast := s.enqueue(mockserver.Run{Queue: "fast_lane"})
	manual := s.enqueue(mockserver.Run{Queue: "manual"})
	s.claimedInOrder([]string{"manual", "fast_lane", "*"}, []string{manual, fast, other})
}

func noQueues(s *session) {
	id := s.enqueue(mockserver.Run{})
	q := s.connect().queue()
	if runs := q.runsOf(q.ask("claim", `{"demand":1,"worker_name":null}`)); len(runs) != 1 || runs[0].ID != id {
		s.t.Fatalf("a claim without queues to get the run "+id, "%s", ids(runs))
	}
}

func wake(s *session) {
	first, second := s.connect().queue(), s.connect().queue()
	s.wait(moment) // what is told of earlier runs
	for _, q := range []*topic{first, second} {
		_, _, _ = q.c.take(func(f *frame) bool { return f.event == wakeEvent })
	}
	s.enqueue(mockserver.Run{})
	for _, q := range []*topic{first, second} {
		if _, err := q.pushed(wakeEvent, wakeWithin); err != nil {
			s.t.Fatalf(fmt.Sprintf("work-available on each joined worker:queue within %v", wakeWithin), "%v", err)
		}
	}
}

const wakeEvent = "work-available"

func noDemand(s *session) {
	id := s.enqueue(mockserver.Run{})
	c := s.connect()
	q := c.queue()
	if a := q.ask("claim", `{"worker_name":null,"queues":["manual","*"]}`); a.ok() && len(q.runsOf(a)) > 0 {
		s.t.Fatalf("a claim without demand to get nothing", "%s", a)
	}
	s.lives(c)
	c.queue().claimRun(id)
}

func goneBeforeReply(s *session) {
	want := s.enqueueMany(2)
	c := s.connect()
	c.queue().send("claim", claimOf(1, everyQueue).String())
	c.close()
	s.wait(moment) // for the server to notice
	q := s.connect().queue()
	found := s.eventually(patience, func() bool {
		runs := q.claim(1, everyQueue...)
		return len(runs) == 1 && slices.Contains(want, runs[0].ID)
	})
	if !found {
		s.t.Fatalf("another worker to get the other run", "nothing for %v", patience)
	}
}

func notTwice(s *session) {
	_, q, r := s.claimed(mockserver.Run{})
	other := s.connect().queue()
	other.empty("the only run was given away")
	r.must("run:start", payload{"timestamp": now()}.String())
	other.empty("the only run is being executed")
	q.empty("the only run is being executed, by the worker that asks")
	r.must("run:complete", completed)
	other.empty("the only run is over")
}

func unknownFields(s *session) {
	id := s.enqueue(mockserver.Run{})
	c := s.connect()
	q := c.join("worker:queue", `{"capacity":1,"queues":{"manual>*":1},"kit_field":{"a":[1]},"extensions":{"kit_extension":1}}`)
	if !q.joined.ok() {
		s.t.Fatalf("a join with an unknown field, and an unknown extension, to be answered with ok", "%s", q.joined)
	}
	if announced(q)["kit_extension"] != nil {
		s.t.Fatalf("an extension that nobody knows not to be announced", "%s", q.joined)
	}
	runs := q.runsOf(q.ask("claim", `{"demand":1,"worker_name":"kit","queues":["manual","*"],"kit_field":true}`))
	if len(runs) != 1 || runs[0].ID != id {
		s.t.Fatalf("a claim with an unknown field to get the run "+id, "%s", ids(runs))
	}
	r := c.join("run:"+id, payload{"token": runs[0].Token, "kit_field": 1}.String())
	if !r.joined.ok() {
		s.t.Fatalf("a join of the run with an unknown field to be answered with ok", "%s", r.joined)
	}
}

// ParsePublicKey reads a [Target.PublicKey]. The text is not in its error: it may be a private key given by mistake.
func ParsePublicKey(text string) (*rsa.PublicKey, error) {
	pem, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, fmt.Errorf("it is not base64: %w", err)
	}
	key, err := jwt.ParseRSAPublicKeyFromPEM(pem)
	if err != nil {
		return nil, fmt.Errorf("it is not the PEM of an RSA public key: %w", err)
	}
	return key, nil
}

func verifiedToken(s *session) {
	if s.target.PublicKey == "" {
		s.t.Skipf("the public key of the server was not given")
	}
	key, err := ParsePublicKey(s.target.PublicKey)
	if err != nil {
		s.t.Fatalf("the public key to be PEM in base64", "%v", err)
	}
	id := s.enqueue(mockserver.Run{})
	run := s.connect().queue().claimRun(id)
	c := jwt.MapClaims{}
	_, err = jwt.ParseWithClaims(run.Token, c, func(*jwt.Token) (any, error) { return key, nil },
		jwt.WithValidMethods([]string{"RS256"}), jwt.WithExpirationRequired(), jwt.WithLeeway(5*time.Second), jwt.WithIssuer("Lightning"))
	if err != nil {
		s.t.Fatalf("a token of RS256 with iss Lightning, and an exp to come", "%v", err)
	}
	if c["id"] != id {
		s.t.Fatalf("the claim id of the token to be "+id, "%v", c["id"])
	}
}
