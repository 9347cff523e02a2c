package lightning

import (
	"bytes"
	"encoding/json"
	"math"
	"time"

	"github.com/phxworker/phxworker/mockserver/phoenix"
)

// queueChannel is worker:queue, as joined by one worker.
type queueChannel struct {
	service *Service
	topic   *phoenix.Topic
}

var _ phoenix.Channel = (*queueChannel)(nil)

// joinQueue lets every worker in: its token was good enough for the socket. The
// payload, capacity and queues, is for information.
func (s *Service) joinQueue(t *phoenix.Topic, payload []byte) (phoenix.Channel, phoenix.Reply) {
	s.logJoin(t.Client(), payload)
	s.waker.add(t)
	c := &queueChannel{service: s, topic: t}
	if s.ext != nil {
		return s.ext.joinQueue(c, payload)
	}
	return c, phoenix.OK([]byte(`{}`))
}

func (c *queueChannel) Left() {
	c.service.waker.remove(c.topic)
	c.service.log.Info("worker left", "worker", c.topic.Client())
}

func (c *queueChannel) Handle(p phoenix.Push) phoenix.Reply {
	if p.Event != "claim" {
		return phoenix.Crash("unknown event")
	}
	request, reason := readClaim(p)
	if reason != "" {
		return phoenix.Crash(reason)
	}
	return c.service.claim(request)
}

// claimRequest is what a claim asks for.
type claimRequest struct {
	demand     int
	workerName string // empty if it is null
	queues     []string
	fields     map[string]json.RawMessage // all of the payload
}

// readClaim reads a claim, or says why the channel crashes over it.
func readClaim(p phoenix.Push) (request claimRequest, reason string) {
	if p.Binary {
		return request, "claim takes no binary payload"
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(p.Payload, &fields) != nil {
		return request, "the payload must be an object"
	}
	demand, reason := claimDemand(fields)
	if reason != "" {
		return request, reason
	}
	var workerName *string
	if raw, ok := fields["worker_name"]; !ok || json.Unmarshal(raw, &workerName) != nil {
		return request, "worker_name must be there, a string or null"
	}
	request = claimRequest{demand: demand, queues: claimQueues(fields["queues"]), fields: fields}
	if workerName != nil {
		request.workerName = *workerName
	}
	return request, ""
}

// claimDemand reads demand, which becomes the LIMIT of a query.
func claimDemand(fields map[string]json.RawMessage) (demand int, reason string) {
	raw, ok := fields["demand"]
	if !ok {
		return 0, "demand is missing"
	}
	var n *int64
	if json.Unmarshal(raw, &n) != nil || n == nil {
		return 0, "demand must be an integer"
	}
	if *n < 0 {
		return 0, "demand must not be negative"
	}
	return int(min(*n, math.MaxInt32)), ""
}

// claimQueues reads queues; whatever is not a list of names is as good as none.
func claimQueues(raw json.RawMessage) []string {
	var names []*string
	if raw == nil || json.Unmarshal(raw, &names) != nil || len(names) == 0 {
		return []string{"manual", wildcard}
	}
	out := make([]string, len(names))
	for i, n := range names {
		if n == nil {
			return []string{"manual", wildcard}
		}
		out[i] = *n
	}
	return out
}

// claim hands out up to demand runs. They stay claimed whatever becomes of the
// worker.
func (s *Service) claim(request claimRequest) phoenix.Reply {
	now := time.Now()
	s.mu.Lock()
	taken := s.takeLocked(request, nil, now)
	s.countClaimLocked(taken)
	s.mu.Unlock()

	if err := s.sign(taken, now); err != nil {
		return phoenix.Crash(err.Error())
	}

	s.mu.Lock()
	for _, g := range taken {
		g.run.token = g.token
	}
	s.mu.Unlock()
	return phoenix.OK(claimResponse(taken))
}

// given is a run that a claim gets.
type given struct {
	run   *run
	token string
	again bool   // it was given before
	owner *owner // nil unless extended
}

// takeLocked takes the runs that a claim gets, which are claimed from here on;
// their tokens are still to be made.
func (s *Service) takeLocked(request claimRequest, isFor func(*run) bool, now time.Time) []given {
	runs := s.available.take(request.demand, request.queues, isFor)
	taken := make([]given, len(runs))
	for i, r := range runs {
		r.state, r.claimed, r.workerName = Claimed, now, request.workerName
		r.expires = now.Add(r.timeout + grace).Truncate(time.Second) // as exp
		s.active[r.id] = r
		taken[i].run = r
	}
	return taken
}

func (s *Service) countClaimLocked(taken []given) {
	s.stats.Claims++
	if len(taken) == 0 {
		s.stats.Empty++
	}
}

// sign makes the tokens of runs claimed at that time.
func (s *Service) sign(taken []given, claimed time.Time) (err error) {
	for i := range taken {
		g := &taken[i]
		g.token, err = s.signer.token(g.run.id, claimed, claimed.Add(g.run.timeout+grace), g.again)
		if err != nil {
			return err
		}
	}
	return nil
}

func claimResponse(taken []given) []byte {
	var b bytes.Buffer
	b.WriteString(`{"runs":[`)
	for i, g := range taken {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(`{"id":`)
		b.Write(quote(g.run.id))
		b.WriteString(`,"token":`)
		b.Write(quote(g.token))
		g.owner.writeTerms(&b)
		b.WriteByte('}')
	}
	b.WriteString(`]}`)
	return b.Bytes()
}

// quote writes a JSON string without escaping what HTML would need.
func quote(s string) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(s) // a string always encodes
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}
