package lightning

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"math"
	"strings"
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
	s.Lock()
	s.joinedLocked(t, payload)
	s.Unlock()
	s.waker.add(t)
	return &queueChannel{service: s, topic: t}, phoenix.OK([]byte(`{}`))
}

// What a person at a terminal wants to see happen, at level info. Workers in
// benchmarks end thousands of runs a second, so nothing is prepared for a line
// that nobody asked for.

// logJoin tells what a worker says it can hold.
func (s *Service) logJoin(worker string, payload []byte) {
	if !s.log.Enabled(context.Background(), slog.LevelInfo) {
		return
	}
	attrs := []any{"worker", worker}
	var told struct{ Capacity, Queues json.RawMessage }
	_ = json.Unmarshal(payload, &told) // whatever it is, the worker is let in
	if told.Capacity != nil {
		attrs = append(attrs, "capacity", string(told.Capacity))
	}
	if told.Queues != nil {
		attrs = append(attrs, "queues", string(told.Queues))
	}
	s.log.Info("worker joined", attrs...)
}

func (c *queueChannel) Left() {
	c.service.waker.remove(c.topic)
	c.service.Lock()
	c.service.leftLocked(c.topic.Client())
	c.service.Unlock()
	c.service.log.Info("worker left", "worker", c.topic.Client())
}

func (c *queueChannel) Handle(p phoenix.Push) phoenix.Reply {
	if p.Event != "claim" {
		return phoenix.Crash("unknown event")
	}
	request, reason := ReadClaim(p)
	if reason != "" {
		return phoenix.Crash(reason)
	}
	request.Worker = c.topic.Client()
	return c.service.claim(request)
}

// Claim is what a claim asks for.
type Claim struct {
	Demand     int
	Worker     string // the worker_id of who claims
	WorkerName string // empty if it is null
	Queues     []string
	Fields     map[string]json.RawMessage // all of the payload
}

// group is how the slot group that claims is written.
func (c *Claim) group() string { return strings.Join(c.Queues, ">") }

// ReadClaim reads a claim, or says why the channel crashes over it.
func ReadClaim(p phoenix.Push) (request Claim, reason string) {
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
	request = Claim{Demand: demand, Queues: claimQueues(fields["queues"]), Fields: fields}
	if workerName != nil {
		request.WorkerName = *workerName
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

// claimQueues reads queues. What is not a list of names counts as absent.
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
func (s *Service) claim(request Claim) phoenix.Reply {
	now := time.Now()
	s.Lock()
	taken := s.TakeLocked(request, nil, now)
	s.CountClaimLocked(request, len(taken))
	s.Unlock()

	if err := s.Sign(taken, now); err != nil {
		return phoenix.Crash(err.Error())
	}

	s.Lock()
	defer s.Unlock()
	for _, g := range taken {
		g.GiveLocked()
	}
	return phoenix.OK(ClaimResponse(taken))
}

// Given is a run that a claim gets.
type Given struct {
	Run   *Entry
	Token string
	// Terms are further members of the object that the reply has for the run, such as
	// `,"attempt":1`. Lightning has none.
	Terms []byte

	again bool // it was given before
}

// GiveLocked has the run's topic let in who shows the token.
func (g *Given) GiveLocked() { g.Run.token = g.Token }

// TakeLocked takes the runs that a claim gets, which are claimed from here on; their tokens
// are still to be made. Those for which isFor is false are passed over; for nil, none is.
func (s *Service) TakeLocked(request Claim, isFor func(*Entry) bool, now time.Time) []Given {
	runs := s.available.take(request.Demand, request.Queues, isFor)
	taken := make([]Given, len(runs))
	for i, r := range runs {
		r.state, r.claimed = Claimed, now
		r.worker, r.workerName, r.group = request.Worker, request.WorkerName, request.group()
		r.expires = now.Add(r.timeout + grace).Truncate(time.Second) // as exp
		r.claims++
		s.active[r.id] = r
		taken[i] = Given{Run: r, again: r.claims > 1}
		s.tellLocked(r)
	}
	return taken
}

// HasAvailableLocked reports whether there is a run to claim.
func (s *Service) HasAvailableLocked() bool { return s.available.size > 0 }

// TakeBackLocked takes a claimed or started run from its worker: its token is good for nothing any more. It can be
// claimed again once it is offered.
func (s *Service) TakeBackLocked(r *Entry) {
	delete(s.active, r.id)
	r.state, r.token, r.expires = Available, "", time.Time{}
	r.worker, r.workerName, r.group = "", "", ""
	r.claimed, r.joined, r.started, r.wiped = time.Time{}, time.Time{}, time.Time{}, false
	s.tellLocked(r)
}

// OfferLocked puts a run that was taken back into its queue, where it was before.
func (s *Service) OfferLocked(r *Entry) {
	s.available.push(r)
	s.waker.soon()
}

// WakeSoon tells the workers, within the debounce, that there may be a run for them.
func (s *Service) WakeSoon() { s.waker.soon() }

// CountClaimLocked counts a claim that was answered with so many runs.
func (s *Service) CountClaimLocked(request Claim, runs int) {
	s.claimedLocked(request)
	s.stats.Claims++
	if runs == 0 {
		s.stats.Empty++
	}
}

// Sign makes the tokens of runs claimed at that time. It takes a while, and no lock.
func (s *Service) Sign(taken []Given, claimed time.Time) (err error) {
	for i := range taken {
		g := &taken[i]
		g.Token, err = s.signer.token(g.Run.id, claimed, claimed.Add(g.Run.timeout+grace), g.again)
		if err != nil {
			return err
		}
	}
	return nil
}

// ClaimResponse is the reply to a claim that gets these runs.
func ClaimResponse(taken []Given) []byte {
	var b bytes.Buffer
	b.WriteString(`{"runs":[`)
	for i, g := range taken {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(`{"id":`)
		b.Write(Quote(g.Run.id))
		b.WriteString(`,"token":`)
		b.Write(Quote(g.Token))
		b.Write(g.Terms)
		b.WriteByte('}')
	}
	b.WriteString(`]}`)
	return b.Bytes()
}

// Quote writes a JSON string without escaping what HTML would need.
func Quote(s string) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(s) // a string always encodes
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}
