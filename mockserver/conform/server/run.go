package server

import (
	"cmp"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/phxworker/phxworker/mockserver"
	"github.com/phxworker/phxworker/mockserver/conform/suite"
)

var runCases = []entry{
	{suite.Case{
		ID: "S4.1", Level: suite.Must, Title: "a run's topic lets in who has the token of the claim",
		Why:    "The topic is where a worker gets the plan, and reports.",
		Source: ofLightning + "run:<id> is joined with the run's token",
	}, joinRun},
	{suite.Case{
		ID: "S4.2", Level: suite.Must, Title: "a run's topic lets nobody in without a token, or with a wrong one",
		Why:    "Behind it are the data of the run and the credentials of its project.",
		Source: ofLightning + `{"reason":"unauthorized"}`,
	}, joinWithout},
	{suite.Case{
		ID: "S4.3", Level: suite.Must, Title: "the token of a run does not open another run",
		Why:    "Behind it are the data of another run, perhaps of another project.",
		Source: ofLightning + "the token names its run",
	}, joinWithOthers},
	{suite.Case{
		ID: "S4.4", Level: suite.Must, Title: "a run that there is not cannot be joined",
		Why:    "A worker that comes back to a server that has lost its runs must find out.",
		Source: ofLightning + `{"reason":"not_found"}`,
	}, joinUnknown},
	{suite.Case{
		ID: "S4.5", Level: suite.Must, Title: "a worker whose connection was lost joins its run again, and goes on",
		Why:    "Connections are lost every day; a run must not be.",
		Source: ofLightning + "the token is good until its exp; " + ofWorker + "rejoins after a reconnect",
	}, joinAgain},
	{suite.Case{
		ID: "S4.6", Level: suite.Must, Title: "the plan has the run's id, jobs with id, adaptor and body, and edges between nodes that it has",
		Why:    "It is what workers execute; what they cannot find, they do not.",
		Source: ofLightning + "fetch:plan; @openfn/lexicon, LightningPlan",
	}, planShape},
	{suite.Case{
		ID: "S4.7", Level: suite.Must, Title: "the plan is the same when it is fetched again",
		Why:    "A worker that did not hear the answer asks again.",
		Source: ofLightning + "fetch:plan changes nothing",
	}, planAgain},
	{suite.Case{
		ID: "S4.8", Level: suite.Must, Title: "the input comes as a binary frame with its JSON in it",
		Why:    "A worker decodes the bytes of the answer; a JSON value in a text frame is none.",
		Source: ofLightning + "fetch:dataclip answers {:binary, body}; " + ofPhoenix + "binary replies",
	}, dataclip},
	{suite.Case{
		ID: "S4.9", Level: suite.Must, Title: "a credential's body comes as it is",
		Why:    "A job without its credential fails, at somebody else's door.",
		Source: ofLightning + "fetch:credential answers the body itself",
	}, credential},
	{suite.Case{
		ID: "S4.10", Level: suite.Must, Title: "a credential that there is not is refused, and the topic stays",
		Why:    "The worker ends the run with the reason; a crash would make it ask for ever.",
		Source: ofLightning + `{"errors":{"id":["Credential not found!"]}}`,
	}, unknownCredential},
	{suite.Case{
		ID: "S4.11", Level: suite.Must, Title: "two runs on one socket do not mix",
		Why:    "All runs of a worker are on one socket.",
		Source: ofPhoenix + "each topic is a process of its own",
	}, twoRuns},
	{suite.Case{
		ID: "S4.12", Level: suite.Must, Limit: manyLimit, Title: "one socket carries 30 runs",
		Why:    "A worker may have a capacity of that; Phoenix allows 100 topics a socket.",
		Source: ofPhoenix + "max_channels is 100, from 1.7.24 on",
	}, thirtyRuns},
	{suite.Case{
		ID: "S4.13", Level: suite.Should, Slow: true, Limit: time.Minute, Title: "after its end the token of a run opens nothing",
		Why:    "Who comes back after that must find out that the run is not its own any more.",
		Source: ofLightning + "exp is the claim + the run's time limit + 10 s",
	}, expiredToken},
	{suite.Case{
		ID: "S4.14", Level: suite.Should, Slow: true, Limit: 8 * time.Minute, Title: "a run that is not completed in its time is taken from its worker: lost, or given to another",
		Why:    "Without it a run whose worker has died looks as if it were executed, for ever.",
		Source: ofLightning + "every 5 minutes, runs beyond their time limit + 10 s are marked lost",
	}, lostAfterLimit},
}

func joinRun(s *session) {
	_, _, r := s.claimed(mockserver.Run{})
	var response map[string]json.RawMessage
	if json.Unmarshal(r.joined.payload, &response) != nil || response == nil || response["extensions"] != nil {
		s.t.Fatalf("an object without extensions, as {}", "%s", short(r.joined.payload))
	}
}

// shut wants a run's topic not to let in who shows this.
func (c *client) shut(id, join string) {
	if r := c.join("run:"+id, join); !r.joined.refused() {
		c.s.t.Fatalf("the join of the run to be refused, by a reply with the status error", "%s", r.joined)
	}
}

func joinWithout(s *session) {
	id := s.enqueue(mockserver.Run{})
	c := s.connect()
	c.shut(id, payload{"token": ""}.String()) // nobody has claimed it yet
	run := c.queue().claimRun(id)
	for _, join := range []string{`{}`, `{"token":null}`, `{"token":""}`, `{"token":7}`, payload{"token": run.Token + "x"}.String(), payload{"token": sign(s.target.Secret, claims(c.worker))}.String()} {
		c.shut(id, join)
	}
	c.run(run)
}

func joinWithOthers(s *session) {
	want := s.enqueueMany(2)
	c := s.connect()
	q := c.queue()
	runs := append(q.claim(1, everyQueue...), q.claim(1, everyQueue...)...)
	if len(runs) != 2 {
		s.t.Fatalf(fmt.Sprintf("two claims to get the runs %q", want), "%s", ids(runs))
	}
	c.shut(runs[0].ID, payload{"token": runs[1].Token}.String())
	c.shut(runs[1].ID, payload{"token": runs[0].Token}.String())
}

func joinUnknown(s *session) {
	id := s.enqueue(mockserver.Run{})
	c := s.connect()
	run := c.queue().claimRun(id)
	c.shut(uuid.NewString(), payload{"token": run.Token}.String())
	s.lives(c)
}

func joinAgain(s *session) {
	id := s.enqueue(mockserver.Run{Plan: plan(2)})
	c := s.connect()
	run := c.queue().claimRun(id)
	r := c.run(run)
	nodes := r.jobs()
	r.must("run:start", payload{"timestamp": now()}.String())
	first := r.startStep(nodes[0], nil)
	c.close()

	c = s.connectAs(c.worker)
	c.queue().empty("the run is still its worker's")
	r = c.run(run)
	clip := r.completeStep(first, nodes[0])
	second := r.startStep(nodes[1], payload{"input_dataclip_id": clip})
	clip = r.completeStep(second, nodes[1])
	r.must("run:complete", payload{"reason": "success", "timestamp": now(), "final_dataclip_id": clip}.String())
}

func planShape(s *session) {
	_, _, r := s.claimed(mockserver.Run{Plan: plan(2)})
	response := r.must("fetch:plan", `{}`)
	var p struct {
		ID       string
		Triggers []struct{ ID string }
		Jobs     []struct{ ID, Adaptor, Body string }
		Edges    []struct {
			Source  string `json:"source_job_id"`
			Trigger string `json:"source_trigger_id"`
			Target  string `json:"target_job_id"`
		}
		Start string `json:"starting_node_id"`
	}
	if err := json.Unmarshal(response, &p); err != nil {
		s.t.Fatalf("a plan with the types of @openfn/lexicon", "%v in %s", err, short(response))
	}
	nodes := map[string]bool{}
	for _, trigger := range p.Triggers {
		nodes[trigger.ID] = true
	}
	for _, job := range p.Jobs {
		nodes[job.ID] = true
		if job.ID == "" || job.Body == "" || job.Adaptor == "" {
			s.t.Failf("each job to have an id, a body and an adaptor", "%s", short(response))
		}
	}
	for _, edge := range p.Edges {
		source := edge.Source
		if source == "" {
			source = edge.Trigger
		}
		if !nodes[source] || !nodes[edge.Target] {
			s.t.Failf("each edge to lead from a node of the plan to another", "%s", short(response))
		}
	}
	if p.Start != "" && !nodes[p.Start] {
		s.t.Failf("starting_node_id to be a node of the plan", "%s", short(response))
	}
	if "run:"+p.ID != r.name {
		s.t.Failf("the plan's id to be that of the run, as in "+r.name, "%q", p.ID)
	}
	if len(p.Jobs) != 2 || len(p.Edges) == 0 {
		s.t.Failf("two jobs, one behind the other", "%d jobs and %d edges", len(p.Jobs), len(p.Edges))
	}
}

func planAgain(s *session) {
	_, _, r := s.claimed(mockserver.Run{})
	first, second := r.must("fetch:plan", `{}`), r.must("fetch:plan", `{}`)
	if !sameJSON(first, second) {
		s.t.Fatalf("the plan as before, "+short(first), "%s", short(second))
	}
}

// sameJSON reports whether two texts are the same JSON.
func sameJSON(a, b []byte) bool {
	var x, y any
	if json.Unmarshal(a, &x) != nil || json.Unmarshal(b, &y) != nil {
		return false
	}
	ja, _ := json.Marshal(x) // what was decoded always encodes, with its keys in order
	jb, _ := json.Marshal(y)
	return string(ja) == string(jb)
}

func dataclip(s *session) {
	input := json.RawMessage(`{"data":{"name":"Zoë 🩺","n":[1,2.5,null]},"request":{"headers":{}}}`)
	_, _, r := s.claimed(mockserver.Run{Dataclip: input})
	a := r.ask("fetch:dataclip", payload{"id": r.input()}.String())
	if !a.ok() || !a.binary {
		s.t.Fatalf("fetch:dataclip to be answered with ok by a binary frame", "%s", a)
	}
	if !sameJSON(a.payload, input) {
		s.t.Fatalf("the input as it was queued, "+string(input), "%s", short(a.payload))
	}
}

// input returns the id of a run's input.
func (t *topic) input() string {
	var p struct {
		Dataclip string `json:"dataclip_id"`
	}
	response := t.must("fetch:plan", `{}`)
	if json.Unmarshal(response, &p) != nil || p.Dataclip == "" {
		t.c.s.t.Fatalf("the plan to name its input with dataclip_id", "%s", short(response))
	}
	return p.Dataclip
}

// withCredential is a run whose job has a credential.
func withCredential(id string, body json.RawMessage) mockserver.Run {
	var p struct{ Jobs []payload }
	raw := plan(1)
	all := payload{}
	if json.Unmarshal(raw, &p) != nil || json.Unmarshal(raw, &all) != nil {
		panic("the kit cannot read its own plan")
	}
	p.Jobs[0]["credential_id"] = id
	all["jobs"] = p.Jobs
	return mockserver.Run{Plan: json.RawMessage(all.String()), Credentials: map[string]json.RawMessage{id: body}}
}

func credential(s *session) {
	body := json.RawMessage(`{"username":"kit","password":"not-a-secret","baseUrl":"https://example.org"}`)
	_, _, r := s.claimed(withCredential(uuid.NewString(), body))
	var p struct {
		Jobs []struct {
			Credential string `json:"credential_id"`
		}
	}
	response := r.must("fetch:plan", `{}`)
	if json.Unmarshal(response, &p) != nil || len(p.Jobs) == 0 || p.Jobs[0].Credential == "" {
		s.t.Fatalf("the job to name its credential with credential_id", "%s", short(response))
	}
	if got := r.must("fetch:credential", payload{"id": p.Jobs[0].Credential}.String()); !sameJSON(got, body) {
		s.t.Fatalf("the credential as it was given", "%d bytes of something else", len(got))
	}
}

func unknownCredential(s *session) {
	_, _, r := s.claimed(mockserver.Run{})
	r.refused("fetch:credential", payload{"id": uuid.NewString()}.String())
	r.must("fetch:plan", `{}`)
}

func twoRuns(s *session) {
	want := s.enqueueMany(2)
	c := s.connect()
	q := c.queue()
	var topics []*topic
	for range want {
		for _, run := range q.claim(1, everyQueue...) {
			topics = append(topics, c.run(run))
		}
	}
	if len(topics) != 2 {
		s.t.Fatalf("two claims to get two runs", "%d", len(topics))
	}
	first, second := topics[0], topics[1]
	first.must("run:start", payload{"timestamp": now()}.String())
	first.must("run:complete", completed)
	second.must("run:start", payload{"timestamp": now()}.String())
	first.await(first.send(leaveEvent, `{}`))
	second.must("run:log", logLine("still here", nil).String())
	second.must("run:complete", completed)
}

func thirtyRuns(s *session) {
	const runs = 30
	want := s.enqueueMany(runs)
	c := s.connect()
	q := c.queue()
	var topics []*topic
	var got []string
	for range runs {
		for _, run := range q.claim(1, everyQueue...) {
			got = append(got, run.ID)
			topics = append(topics, c.run(run))
		}
	}
	s.same(got, want)
	for _, r := range topics {
		r.must("run:start", payload{"timestamp": now()}.String())
	}
	for _, r := range topics {
		r.must("run:complete", completed)
	}
}

// brief is a plan with hardly any time.
func brief() json.RawMessage {
	p := payload{}
	if json.Unmarshal(plan(1), &p) != nil {
		panic("the kit cannot read its own plan")
	}
	p["options"] = payload{"run_timeout_ms": 1000}
	return json.RawMessage(p.String())
}

// limit returns the time limit of a run. One that the kit cannot wait for ends the case.
func (s *session) limit(r *topic) time.Duration {
	var p struct {
		Options struct {
			Limit float64 `json:"run_timeout_ms"`
		}
	}
	_ = json.Unmarshal(r.must("fetch:plan", `{}`), &p) // then there is no limit
	limit := time.Duration(p.Options.Limit) * time.Millisecond
	if limit <= 0 || limit > 10*time.Second {
		s.t.Skipf("the run was queued with a time limit of a second, and has one of %v", limit)
	}
	return limit
}

// tokenGrace is how much longer than its run a token is good at Lightning, rounded up.
const tokenGrace = 12 * time.Second

func expiredToken(s *session) {
	id := s.enqueue(mockserver.Run{Plan: brief()})
	c := s.connect()
	run := c.queue().claimRun(id)
	s.wait(s.limit(c.run(run)) + tokenGrace)
	s.connectAs(c.worker).shut(id, payload{"token": run.Token}.String())
}

func lostAfterLimit(s *session) {
	id := s.enqueue(mockserver.Run{Plan: brief()})
	c := s.connect()
	q := c.queue()
	r := c.run(q.claimRun(id))
	limit := s.limit(r)
	r.must("run:start", payload{"timestamp": now()}.String())
	overdue := limit + tokenGrace + cmp.Or(s.target.Janitor, 5*time.Minute)
	if end, ok := s.t.Context().Deadline(); ok && time.Until(end) < overdue {
		s.t.Skipf("the server takes such runs from their workers after %v, and the case has less time: --patience gives it more", overdue)
	}
	s.wait(overdue)
	if runs := s.connect().queue().claim(1, everyQueue...); len(runs) == 1 && runs[0].ID == id {
		return // a server that gives such runs to another worker does better
	}
	r.refused("run:complete", completed)
}
