package lightning

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/phxworker/phxworker/mockserver/changeset"
	"github.com/phxworker/phxworker/mockserver/phoenix"
)

// RunChannel is run:<id>, as joined by a worker.
type RunChannel struct {
	// Run is what it is about.
	Run *Entry
	// Guard may refuse events. Lightning has none: whoever was let in stays.
	Guard Guard

	service *Service
}

var _ phoenix.Channel = (*RunChannel)(nil)

// Guard decides whether an event on a run's topic counts. It is asked with the [Service]
// locked, so that the run cannot be taken away before the event has had its effect.
type Guard interface {
	// Refuse returns what an event is refused with, nil if it is not, and the number of who
	// sends it, for the record.
	Refuse() (owner int, response []byte)
}

var (
	notFound     = []byte(`{"reason":"not_found"}`)
	unauthorized = []byte(`{"reason":"unauthorized"}`)
)

// joinRun lets in who has the token that the claim handed out, until it expires. A
// token from anywhere else cannot have been signed with our key, so there is
// nothing else to verify.
func (s *Service) joinRun(id string, payload []byte) (phoenix.Channel, phoenix.Reply) {
	var p struct {
		Token string `json:"token"`
	}
	_ = json.Unmarshal(payload, &p) // then the token is missing
	s.Lock()
	defer s.Unlock()
	r := s.runs[id]
	if r == nil {
		return nil, phoenix.Refuse(notFound)
	}
	if p.Token == "" || p.Token != r.token || !time.Now().Before(r.expires) {
		return nil, phoenix.Refuse(unauthorized)
	}
	if r.joined.IsZero() {
		r.joined = time.Now()
	}
	return &RunChannel{Run: r, service: s}, phoenix.OK([]byte(`{}`))
}

// Left implements [phoenix.Channel].
func (c *RunChannel) Left() {}

// Handle implements [phoenix.Channel].
func (c *RunChannel) Handle(p phoenix.Push) phoenix.Reply {
	e := Event{At: time.Now(), Event: p.Event, Payload: recorded(p)}
	var cs *changeset.Changeset
	if !p.Binary {
		cs = changeset.New(e.Payload)
	}
	reply := c.apply(p, cs, e)
	if p.Event == "run:complete" && reply.Status() == "ok" {
		c.service.logEnd(c.Run)
	}
	return reply
}

// apply answers a push and puts it, as e, on the run's record.
func (c *RunChannel) apply(p phoenix.Push, cs *changeset.Changeset, e Event) phoenix.Reply {
	c.service.Lock()
	defer c.service.Unlock()
	reply := c.answerLocked(p, cs, &e)
	c.CountLocked(&e, reply)
	c.service.NoteLocked(c.Run, e)
	return reply
}

// NoteLocked puts an event on a run's record.
func (s *Service) NoteLocked(r *Entry, e Event) {
	r.events = append(r.events, e)
	s.feed.add(Change{Event: &Arrival{Run: r.id, Event: e.Event, Status: e.Status}})
}

// CountLocked counts an event, and completes its record with the answer.
func (c *RunChannel) CountLocked(e *Event, reply phoenix.Reply) {
	stats := &c.service.stats
	e.Status = reply.Status()
	stats.Events++
	switch e.Status {
	case "error":
		stats.Refused++
		e.Response = reply.Response()
	case "crash":
		stats.Crashes++
		e.Crash = reply.Reason()
	}
}

// answerLocked applies a push. cs is its payload, nil if that is not an object; e is its record.
func (c *RunChannel) answerLocked(p phoenix.Push, cs *changeset.Changeset, e *Event) phoenix.Reply {
	if c.Guard != nil {
		var response []byte
		if e.Owner, response = c.Guard.Refuse(); response != nil {
			return phoenix.Refuse(response)
		}
	}
	switch p.Event { // these do not look at the payload
	case "fetch:plan":
		return phoenix.OK(c.Run.plan)
	case "fetch:dataclip":
		return phoenix.Bytes(c.service.inputLocked(c.Run))
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
		return c.service.credentialLocked(c.Run, cs)
	case "run:start":
		return c.service.startLocked(c.Run, cs)
	case "step:start":
		return c.service.startStepLocked(c.Run, cs)
	case "step:complete":
		return c.Run.completeStep(cs, c.service.cfg.Dataclips)
	case "run:log":
		return c.Run.log(cs)
	case "run:batch_logs":
		return c.Run.logBatch(cs)
	case "run:complete":
		return c.service.completeLocked(c.Run, cs)
	}
	return phoenix.Crash("unknown event")
}

// logEnd tells how a run ended. What its error says is not in the log: it may
// quote the data of the run.
func (s *Service) logEnd(r *Entry) {
	if !s.log.Enabled(context.Background(), slog.LevelInfo) {
		return
	}
	s.Lock()
	attrs := []any{"run_id", r.id, "reason", r.result.Reason}
	if r.result.ErrorType != "" {
		attrs = append(attrs, "error_type", r.result.ErrorType)
	}
	attrs = append(attrs, "queue", r.queue)
	if r.workerName != "" {
		attrs = append(attrs, "worker_name", r.workerName)
	}
	s.Unlock()
	s.log.Info("run ended", attrs...)
}

// stored are the events whose payload goes into Lightning's database. PostgreSQL stores
// no U+0000, neither in a text nor in JSON.
var stored = map[string]bool{"step:start": true, "step:complete": true, "run:log": true, "run:batch_logs": true, "run:complete": true}

// hasNUL reports whether there is a U+0000 in the payload: in a key or a string, or in the
// JSON that an output is as a string.
func hasNUL(c *changeset.Changeset) bool {
	const nul = "\x00"
	for key, raw := range c.Fields {
		if strings.Contains(key, nul) || bytes.Contains(raw, []byte(`\u0000`)) && anyString(decoded(raw), nul) {
			return true
		}
	}
	output, _ := decoded(c.Fields["output_dataclip"]).(string)
	return strings.Contains(output, `\u0000`) && anyString(decoded([]byte(output)), nul)
}

func decoded(raw []byte) any {
	var v any
	_ = json.Unmarshal(raw, &v) // what is not JSON is refused elsewhere
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
