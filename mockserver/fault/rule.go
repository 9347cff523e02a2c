package fault

import (
	"encoding/json"
	"strings"
	"time"
)

// The events that are not named as on the wire.
const (
	// Now is no message: the rule strikes once, when it is added.
	Now = "now"
	// Connect is a request for a websocket, whose token was good.
	Connect = "connect"
	// Join and Leave are phx_join and phx_leave.
	Join  = "join"
	Leave = "leave"
	// Heartbeat is the socket's.
	Heartbeat = "heartbeat"
)

// events are all that a rule can name.
var events = []string{
	Now, Connect, Join, Leave, Heartbeat, "claim", "run:release", "worker:status", "run:renew",
	"fetch:plan", "fetch:dataclip", "fetch:credential",
	"run:start", "run:log", "run:batch_logs", "run:complete", "step:start", "step:complete",
}

// Rule is one fault: which messages it is for, how often it strikes, what
// happens. Only Action is required.
type Rule struct {
	// ID is the rule's number, from 1; it is given by [Set.Add].
	ID int

	// Event is the event of the message, or Now, Connect, Join, Leave,
	// Heartbeat. Defaults to every join, push, leave and heartbeat that the
	// action can strike. No message on a topic that is not joined is struck.
	Event string
	// Topic is the topic's name, or its beginning and a *. Defaults to any.
	Topic string
	// Run is the id of a run, and stands for its topic. Defaults to any.
	Run string
	// Worker is the worker_id in the token of the socket. Defaults to any.
	Worker string
	// Over is for messages of more than so many bytes, after decompression.
	// Defaults to any size.
	Over int

	// Skip is how many messages, of those it is for, the rule lets pass first.
	Skip int
	// Count is how many it strikes. Defaults to one, or to no limit when there
	// is a Probability; negative: no limit.
	Count int
	// Probability is the chance with which it strikes. Defaults to 1.
	Probability float64

	// Action is what happens.
	Action Action
	// When is before or after the message is applied. Defaults to before if the
	// action can do that, but to after for Withhold.
	When When
	// Delay belongs to the actions that speak of it.
	Delay time.Duration
	// Code is a close code or an HTTP status; see the actions.
	Code int
	// Response is what Refuse answers, any JSON: {"field":["message"]},
	// {"errors":{…}} or a bare string, which are the shapes of Lightning's
	// refusals, and {"reason":"unauthorized"} for a join.
	Response json.RawMessage
}

// Message is what a rule is asked about.
type Message struct {
	Socket int    // the connection, from 1; zero for Connect
	Worker string // its worker_id
	Topic  string // empty for Connect
	Event  string
	Size   int // bytes
}

// Run is the id of the run whose topic the message is on, or empty.
func (m *Message) Run() string {
	id, _ := strings.CutPrefix(m.Topic, runPrefix)
	if len(id) == len(m.Topic) {
		return ""
	}
	return id
}

const runPrefix = "run:"

// is reports whether the rule is for the message.
func (r *Rule) is(m *Message) bool {
	switch {
	case r.Event != "" && r.Event != m.Event,
		r.Event == "" && m.Event == Connect,
		r.Event == "" && !specs[r.Action].can(m.Event),
		r.Action == Expire && m.Run() == "",
		r.Worker != "" && r.Worker != m.Worker,
		r.Run != "" && r.Run != m.Run(),
		r.Over > 0 && m.Size <= r.Over:
		return false
	}
	if start, ok := strings.CutSuffix(r.Topic, "*"); ok {
		return strings.HasPrefix(m.Topic, start)
	}
	return r.Topic == "" || r.Topic == m.Topic
}
