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
	return &queueChannel{service: s, topic: t}, phoenix.OK([]byte(`{}`))
}

func (c *queueChannel) Left() {
	c.service.waker.remove(c.topic)
	c.service.log.Info("worker left", "worker", c.topic.Client())
}

func (c *queueChannel) Handle(p phoenix.Push) phoenix.Reply {
	if p.Event != "claim" {
		return phoenix.Crash("unknown event")
	}
	if p.Binary {
		return phoenix.Crash("claim takes no binary payload")
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(p.Payload, &fields) != nil {
		return phoenix.Crash("the payload must be an object")
	}
	demand, reason := claimDemand(fields)
	if reason != "" {
		return phoenix.Crash(reason)
	}
	var workerName *string
	if raw, ok := fields["worker_name"]; !ok || json.Unmarshal(raw, &workerName) != nil {
		return phoenix.Crash("worker_name must be there, a string or null")
	}
	return c.service.claim(demand, workerName, claimQueues(fields["queues"]))
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
func (s *Service) claim(demand int, workerName *string, names []string) phoenix.Reply {
	now := time.Now()
	s.mu.Lock()
	taken := s.available.take(demand, names)
	for _, r := range taken {
		r.state, r.claimed = Claimed, now
		r.expires = now.Add(r.timeout + grace).Truncate(time.Second) // as exp
		if workerName != nil {
			r.workerName = *workerName
		}
		s.active[r.id] = r
	}
	s.stats.Claims++
	if len(taken) == 0 {
		s.stats.Empty++
	}
	s.mu.Unlock()

	tokens := make([]string, len(taken))
	for i, r := range taken {
		token, err := s.signer.token(r.id, now, now.Add(r.timeout+grace))
		if err != nil {
			return phoenix.Crash(err.Error())
		}
		tokens[i] = token
	}

	s.mu.Lock()
	for i, r := range taken {
		r.token = tokens[i]
	}
	s.mu.Unlock()
	return phoenix.OK(claimResponse(taken, tokens))
}

func claimResponse(taken []*run, tokens []string) []byte {
	var b bytes.Buffer
	b.WriteString(`{"runs":[`)
	for i, r := range taken {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(`{"id":`)
		b.Write(quote(r.id))
		b.WriteString(`,"token":`)
		b.Write(quote(tokens[i]))
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
