package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/uuid"
	"github.com/gorilla/websocket"

	"github.com/phxworker/phxworker/mockserver"
	"github.com/phxworker/phxworker/mockserver/conform/suite"
)

const (
	// patience is how long an answer may take. Lightning's claims take up to 15 s on a bad day.
	patience = 15 * time.Second
	// promptly is how long what needs no waiting may take: it takes milliseconds, if the machine is not busy.
	promptly = 5 * time.Second
	// moment is how long the kit waits for what must not come.
	moment = 250 * time.Millisecond
	// wakeWithin is how long after a run was queued the workers are told. Lightning takes up to half a second.
	wakeWithin = 3 * time.Second
	// longestTerm is how long the kit waits for a lease to end, or another term of a server.
	longestTerm = 30 * time.Second
)

// session is one case against its server.
type session struct {
	t           *suite.T
	ctx         context.Context // that of t, and in the end one of its own
	target      Target
	connections int
	held        map[string]string // the latest token of each run that was claimed
}

// begin makes the case's session: its server, and an empty queue.
func begin(t *suite.T, servers Servers) *session {
	target, end, err := servers.open(t.Context())
	if end != nil {
		t.Cleanup(end)
	}
	if err != nil {
		t.Fatalf("a server to try", "%v", err)
	}
	s := &session{t: t, ctx: t.Context(), target: target, held: make(map[string]string)}
	if servers.shared {
		s.sweep()
		t.Cleanup(s.tidy)
	}
	return s
}

// tidy completes what the case has left. It has time of its own, for that of the case may be over.
func (s *session) tidy() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.ctx), patience)
	defer cancel()
	s.ctx = ctx
	s.complete()
}

// sweep completes what earlier cases have left in the queue.
func (s *session) sweep() {
	q := s.connect().queue()
	for len(q.claim(100, "manual", "fast_lane", "*")) > 0 {
		s.complete()
	}
	q.c.close()
}

// complete ends the runs that the case has, if they are not over: with a lease they would be back in the queue in the
// middle of another case.
func (s *session) complete() {
	c, _, _ := s.tryDial("", token(sign(s.target.Secret, claims(uuid.NewString()))))
	if c == nil {
		return // what became of the server is for the next case to find
	}
	for id, token := range s.held {
		if r := c.tryRun(id, token); r.joined.ok() {
			r.ask("run:complete", completed)
		}
	}
	clear(s.held)
	c.close()
}

// payload is what a push carries.
type payload map[string]any

func (p payload) String() string {
	raw, err := marshal(map[string]any(p))
	if err != nil {
		panic(fmt.Sprintf("the kit cannot encode its own payload: %v", err))
	}
	return string(raw)
}

// claims are those of a worker's token. They have no end, as ws-worker's have none.
func claims(worker string) jwt.MapClaims {
	return jwt.MapClaims{"iss": "urn:openfn:worker", "iat": time.Now().Add(-time.Minute).Unix(), "worker_id": worker}
}

// sign makes a worker's token.
func sign(secret string, c jwt.Claims) string {
	token, err := jwt.NewWithClaims(jwt.SigningMethodHS256, c).SignedString([]byte(secret))
	if err != nil {
		panic(fmt.Sprintf("the kit cannot sign its own token: %v", err))
	}
	return token
}

// dial asks for a socket with these parameters and those that ws-worker sends as well. It returns nil and the
// status if it is refused.
func (s *session) dial(worker string, params url.Values) (*client, int) {
	c, status, err := s.tryDial(worker, params)
	if err != nil {
		s.t.Fatalf("the server to answer the request for a websocket", "%v", withoutQuery(err))
	}
	return c, status
}

func (s *session) tryDial(worker string, params url.Values) (c *client, status int, err error) {
	query := url.Values{"vsn": {"2.0.0"}, "api_version": {"1.2"}, "worker_version": {"1.29.2"}}
	maps.Copy(query, params)
	dialer := websocket.Dialer{NetDialContext: s.target.Dial, HandshakeTimeout: patience}
	conn, resp, err := dialer.DialContext(s.ctx, s.target.URL+"/websocket?"+query.Encode(), nil)
	if resp != nil && resp.Body != nil {
		_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 1<<20))
		_ = resp.Body.Close()
	}
	switch {
	case err == nil:
		c = newClient(s, conn, worker)
		s.t.Cleanup(c.close)
		return c, http.StatusSwitchingProtocols, nil
	case errors.Is(err, websocket.ErrBadHandshake) && resp != nil:
		return nil, resp.StatusCode, nil
	}
	return nil, 0, err
}

// withoutQuery leaves the token out of an error.
func withoutQuery(err error) error {
	if bad, ok := errors.AsType[*url.Error](err); ok {
		return bad.Err
	}
	return err
}

// connect opens the socket of a new worker.
func (s *session) connect() *client { return s.connectAs(uuid.NewString()) }

// connectAs opens a socket of a worker that may have others.
func (s *session) connectAs(worker string) *client {
	c, status := s.dial(worker, url.Values{"token": {sign(s.target.Secret, claims(worker))}})
	if c == nil {
		came := s.refusal(status)
		if isRefusal(status) {
			came += " (is the secret the same on both sides?)"
		}
		s.t.Fatalf("a worker with a good token to be let in", "%s", came)
	}
	return c
}

// refusal is the status that a request for a socket was answered with, and what it means where that is no matter of the
// token.
func (s *session) refusal(status int) string {
	said := fmt.Sprintf("the HTTP status %d", status)
	target, err := url.Parse(s.target.URL)
	if status != http.StatusNotFound || err != nil {
		return said
	}
	return fmt.Sprintf("%s for the path %s/websocket (the URL has to be that of the workers' endpoint, which ends with /worker at Lightning: the kit adds /websocket)", said, target.Path)
}

// enqueue puts a run into the queue.
func (s *session) enqueue(run mockserver.Run) (id string) {
	if run.Plan == nil {
		run.Plan = plan(1)
	}
	id, err := s.target.Enqueue(s.t.Context(), run)
	s.did("queue a run", err)
	return id
}

// did ends the case if something could not be done on the server's other side.
func (s *session) did(what string, err error) {
	switch {
	case errors.Is(err, ErrCannot):
		s.t.Skipf("to %s as the case needs it: %v", what, err)
	case err != nil:
		s.t.Fatalf("that one can "+what, "%v", err)
	}
}

// plan makes a plan of so many jobs, one behind the other. Its ids are UUIDs, as Lightning's are.
func plan(jobs int) json.RawMessage {
	trigger := uuid.NewString()
	p := payload{"id": uuid.NewString(), "starting_node_id": trigger, "triggers": []payload{{"id": trigger}}}
	var list, edges []payload
	source := payload{"source_trigger_id": trigger, "condition": "always"}
	for n := range jobs {
		id := uuid.NewString()
		list = append(list, payload{
			"id": id, "name": fmt.Sprintf("job %d", n+1), "adaptor": "@openfn/language-common@latest", "body": "fn(state => state)",
		})
		edge := payload{"id": uuid.NewString(), "target_job_id": id, "enabled": true}
		maps.Copy(edge, source)
		edges = append(edges, edge)
		source = payload{"source_job_id": id, "condition": "on_job_success"}
	}
	p["jobs"], p["edges"], p["options"] = list, edges, payload{"run_timeout_ms": 60_000}
	return json.RawMessage(p.String())
}

// queue joins worker:queue. What it offers are names of extensions.
func (c *client) queue(offers ...string) *topic {
	p := payload{"capacity": 5, "queues": payload{"manual>*": 5}}
	if len(offers) > 0 {
		p["extensions"] = offered(offers)
	}
	q := c.join("worker:queue", p.String())
	if !q.joined.ok() {
		c.s.t.Fatalf("a worker to be let in to worker:queue", "%s", q.joined)
	}
	return q
}

func offered(names []string) payload {
	offer := payload{}
	for _, name := range names {
		offer[name] = 1
	}
	return offer
}

// given is a run in the answer to a claim.
type given struct {
	ID      string `json:"id"`
	Token   string `json:"token"`
	LeaseMS int64  `json:"lease_ms"`
	Attempt int    `json:"attempt"`
}

func claimOf(demand int, queues []string) payload {
	return payload{"demand": demand, "worker_name": nil, "queues": queues}
}

// claim claims, and returns the runs that it gets.
func (t *topic) claim(demand int, queues ...string) []given {
	return t.runsOf(t.ask("claim", claimOf(demand, queues).String()))
}

// runsOf reads the answer to a claim.
func (t *topic) runsOf(a answer) []given {
	var response struct {
		Runs *[]given `json:"runs"`
	}
	if !a.ok() || json.Unmarshal(a.payload, &response) != nil || response.Runs == nil {
		t.c.s.t.Fatalf(`a claim to be answered with ok and {"runs":[…]}`, "%s", a)
	}
	for _, run := range *response.Runs {
		if run.ID == "" || run.Token == "" {
			t.c.s.t.Fatalf("each run to have an id and a token, which are strings", "%s", a)
		}
		t.c.s.held[run.ID] = run.Token
	}
	return *response.Runs
}

// everyQueue is the claim of a worker that takes all.
var everyQueue = []string{"manual", "*"}

// claimRun claims one run, which has to be the one of this id.
func (t *topic) claimRun(id string) given {
	runs := t.claim(1, everyQueue...)
	if len(runs) != 1 || runs[0].ID != id {
		t.c.s.t.Fatalf("the claim to get the run "+id+", which waits", "%s", ids(runs))
	}
	return runs[0]
}

// empty wants a claim to get nothing.
func (t *topic) empty(why string) {
	if runs := t.claim(1, everyQueue...); len(runs) > 0 {
		t.c.s.t.Fatalf("a claim to get nothing: "+why, "%s", ids(runs))
	}
}

func ids(runs []given) string {
	names := make([]string, len(runs))
	for i, run := range runs {
		names[i] = run.ID
	}
	return fmt.Sprintf("%d runs %q", len(runs), names)
}

// run joins the topic of a run.
func (c *client) run(run given, offers ...string) *topic {
	r := c.tryRun(run.ID, run.Token, offers...)
	if !r.joined.ok() {
		c.s.t.Fatalf("the run's topic to let in who has its token", "%s", r.joined)
	}
	return r
}

// tryRun joins the topic of a run, whatever the answer.
func (c *client) tryRun(id, token string, offers ...string) *topic {
	p := payload{"token": token}
	if len(offers) > 0 {
		p["extensions"] = offered(offers)
	}
	return c.join("run:"+id, p.String())
}

// claimed queues a run and takes it to its joined topic.
func (s *session) claimed(run mockserver.Run) (c *client, q, r *topic) {
	id := s.enqueue(run)
	c = s.connect()
	q = c.queue()
	return c, q, c.run(q.claimRun(id))
}

// started takes a run of so many jobs to its run:start, and returns the ids of its jobs.
func (s *session) started(jobs int) (r *topic, nodes []string) {
	_, _, r = s.claimed(mockserver.Run{Plan: plan(jobs)})
	nodes = r.jobs()
	if len(nodes) < jobs {
		s.t.Fatalf(fmt.Sprintf("a plan of %d jobs", jobs), "one of %d", len(nodes))
	}
	r.must("run:start", payload{"timestamp": now(), "versions": payload{"node": "24.1.0", "worker": "1.29.2"}}.String())
	return r, nodes
}

// jobs returns the ids of the jobs in a run's plan.
func (t *topic) jobs() (nodes []string) {
	var p struct{ Jobs []struct{ ID string } }
	response := t.must("fetch:plan", `{}`)
	if err := json.Unmarshal(response, &p); err != nil {
		t.c.s.t.Fatalf("a plan that is an object with a list of jobs", "%s", short(response))
	}
	for _, job := range p.Jobs {
		nodes = append(nodes, job.ID)
	}
	return nodes
}

// now is a time as workers tell it: microseconds since 1970, as a decimal string.
func now() string { return strconv.FormatInt(time.Now().UnixMicro(), 10) }

// completed is a good run:complete.
var completed = `{"reason":"success","error_type":null,"error_message":null,"timestamp":"1795168192891559"}`

// startStep starts a step of a job.
func (t *topic) startStep(job string, more payload) (step string) {
	step = uuid.NewString()
	t.must("step:start", stepStart(step, job, more))
	return step
}

func stepStart(step, job string, more payload) string {
	p := payload{"step_id": step, "job_id": job, "timestamp": now()}
	maps.Copy(p, more)
	return p.String()
}

// completeStep finishes a step with an output, and returns the id of that.
func (t *topic) completeStep(step, job string) (clip string) {
	clip = uuid.NewString()
	t.must("step:complete", stepComplete(step, job, payload{"output_dataclip": `{"data":{"n":1}}`, "output_dataclip_id": clip}))
	return clip
}

func stepComplete(step, job string, more payload) string {
	p := payload{
		"step_id": step, "job_id": job, "reason": "success", "error_type": nil, "error_message": nil, "timestamp": now(),
		"duration": 12, "mem": payload{"job": 1000, "system": 2000}, "thread_id": "1",
	}
	maps.Copy(p, more)
	return p.String()
}

// logLine is a line of a run's log; more may replace its fields.
func logLine(text string, more payload) payload {
	p := payload{"message": []string{text}, "level": "info", "source": "JOB", "timestamp": now()}
	maps.Copy(p, more)
	return p
}

// wait lets time pass, unless the case ends.
func (s *session) wait(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-s.t.Context().Done():
		s.t.Fatalf("the case to end in its time", "%v", context.Cause(s.t.Context()))
	}
}

// eventually asks again and again until something holds, for so long.
func (s *session) eventually(within time.Duration, holds func() bool) bool {
	step := min(max(within/50, 10*time.Millisecond), 500*time.Millisecond)
	for end := time.Now().Add(within); ; s.wait(step) {
		if holds() {
			return true
		}
		if time.Now().After(end) {
			return false
		}
	}
}
