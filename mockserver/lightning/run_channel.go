package lightning

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/phxworker/phxworker/mockserver/phoenix"
)

// runChannel is run:<id>, as joined by a worker.
type runChannel struct {
	service *Service
	run     *run
	// The rest is nil unless extended.
	topic *phoenix.Topic
	owner *owner
	with  agreed
}

var _ phoenix.Channel = (*runChannel)(nil)

var (
	notFound     = []byte(`{"reason":"not_found"}`)
	unauthorized = []byte(`{"reason":"unauthorized"}`)
)

// joinRun lets in who has the token that the claim handed out, until it expires. A
// token from anywhere else cannot have been signed with our key, so there is
// nothing else to verify.
func (s *Service) joinRun(t *phoenix.Topic, id string, payload []byte) (phoenix.Channel, phoenix.Reply) {
	var p struct {
		Token string `json:"token"`
	}
	_ = json.Unmarshal(payload, &p) // then the token is missing
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.runs[id]
	if r == nil {
		return nil, phoenix.Refuse(notFound)
	}
	if s.ext != nil && s.ext.lostLocked(r, p.Token) {
		return nil, phoenix.Refuse(leaseLost)
	}
	if p.Token == "" || p.Token != r.token || !time.Now().Before(r.expires) {
		return nil, phoenix.Refuse(unauthorized)
	}
	c := &runChannel{service: s, run: r}
	if s.ext != nil {
		return s.ext.joinRunLocked(t, c, payload)
	}
	return c, phoenix.OK([]byte(`{}`))
}

func (c *runChannel) Left() {
	if c.service.ext != nil {
		c.service.ext.leftRun(c)
	}
}

func (c *runChannel) Handle(p phoenix.Push) phoenix.Reply {
	e := Event{At: time.Now(), Event: p.Event, Payload: recorded(p)}
	var cs *changeset
	if !p.Binary {
		cs = newChangeset(e.Payload)
	}
	reply := c.apply(p, cs, e)
	if p.Event == "run:complete" && reply.Status() == "ok" {
		c.service.logEnd(c.run)
	}
	return reply
}

// apply answers a push and puts it, as e, on the run's record.
func (c *runChannel) apply(p phoenix.Push, cs *changeset, e Event) phoenix.Reply {
	s := c.service
	s.mu.Lock()
	defer s.mu.Unlock()
	reply := c.answerLocked(p, cs)
	e.Status = reply.Status()
	s.stats.Events++
	switch e.Status {
	case "error":
		s.stats.Refused++
		e.Response = reply.Response()
	case "crash":
		s.stats.Crashes++
		e.Crash = reply.Reason()
	}
	if c.owner != nil {
		if p.Event == runRenew && e.Status == "ok" {
			return reply // counted with its owner
		}
		e.Owner = c.owner.number
	}
	c.run.events = append(c.run.events, e)
	return reply
}

// answerLocked applies a push; cs is its payload, nil if that is no object.
func (c *runChannel) answerLocked(p phoenix.Push, cs *changeset) phoenix.Reply {
	if c.owner.lost(c.run) {
		c.service.ext.stats.Stale++
		return phoenix.Refuse(leaseLost)
	}
	switch p.Event { // these do not look at the payload
	case "fetch:plan":
		return phoenix.OK(c.run.plan)
	case "fetch:dataclip":
		return phoenix.Bytes(c.service.inputLocked(c.run))
	}
	if p.Binary && p.Event == "run:log" {
		return logged()
	}
	if cs == nil {
		return phoenix.Crash("the payload must be an object")
	}
	if stored[p.Event] && hasNUL(cs) {
		return phoenix.Crash("unsupported Unicode escape sequence: \\u0000 cannot be converted to text")
	}
	switch p.Event {
	case "fetch:credential":
		return c.service.credentialLocked(c.run, cs)
	case "run:start":
		return c.service.startLocked(c.run, cs)
	case "step:start":
		return c.service.startStepLocked(c.run, cs)
	case "step:complete":
		return c.run.completeStep(cs, c.service.cfg.Dataclips)
	case "run:log":
		return c.run.log(cs)
	case "run:batch_logs":
		return c.run.logBatch(cs)
	case "run:complete":
		return c.service.completeLocked(c.run, cs)
	case runRenew:
		if c.with[extLease] {
			return c.service.ext.renewLocked(c)
		}
	}
	return phoenix.Crash("unknown event")
}

// stored are the events whose payload goes into Lightning's database. PostgreSQL stores
// no U+0000, neither in a text nor in JSON.
var stored = map[string]bool{"step:start": true, "step:complete": true, "run:log": true, "run:batch_logs": true, "run:complete": true}

// hasNUL reports whether there is a U+0000 in the payload: in a key or a string, or in the
// JSON that an output is as a string.
func hasNUL(c *changeset) bool {
	const nul = "\x00"
	for key, raw := range c.fields {
		if strings.Contains(key, nul) || bytes.Contains(raw, []byte(`\u0000`)) && anyString(decoded(raw), nul) {
			return true
		}
	}
	output, _ := decoded(c.fields["output_dataclip"]).(string)
	return strings.Contains(output, `\u0000`) && anyString(decoded([]byte(output)), nul)
}

func decoded(raw []byte) any {
	var v any
	_ = json.Unmarshal(raw, &v) // of what is no JSON there is nothing to say here
	return v
}

// anyString reports whether a key or string in v contains the text.
func anyString(v any, text string) bool {
	switch v := v.(type) {
	case string:
		return strings.Contains(v, text)
	case []any:
		return slices.ContainsFunc(v, func(item any) bool { return anyString(item, text) })
	case map[string]any:
		for key, item := range v {
			if strings.Contains(key, text) || anyString(item, text) {
				return true
			}
		}
	}
	return false
}

// recorded copies a payload for the run's record.
func recorded(p phoenix.Push) json.RawMessage {
	if !p.Binary {
		return append(json.RawMessage(nil), p.Payload...)
	}
	b, _ := json.Marshal(map[string]string{"__binary_base64": base64.StdEncoding.EncodeToString(p.Payload)})
	return b
}
