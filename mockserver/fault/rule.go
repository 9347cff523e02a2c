package fault

import (
	"encoding/json"
	"fmt"
	"slices"
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
	// Response is what Refuse and Answer answer, any JSON. {"field":["message"]},
	// {"errors":{…}} and a bare string are the shapes of Lightning's refusals,
	// and {"reason":"unauthorized"} is that of a join's.
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

// Action is what goes wrong.
type Action string

// The actions, with the fields of a [Rule] that each takes.
const (
	// Drop ends the connection without a close frame, which a client sees
	// as code 1006.
	Drop Action = "drop"
	// Close ends the connection with a close frame. Code defaults to 1000, as
	// when a client is kicked.
	Close Action = "close"
	// Crash ends the topic with a phx_error, as an exception does. There is
	// no reply, except that a join is refused with "join crashed" or, when
	// the crash comes after, is answered first.
	Crash Action = "crash"
	// Refuse answers with the status error and Response, and applies
	// nothing. A connection is refused with the HTTP status Code, which
	// defaults to 503.
	Refuse Action = "refuse"
	// Answer answers with the status ok and Response, and applies nothing: a
	// server that is wrong, such as one that gives a run a second time. It is for
	// pushes.
	Answer Action = "answer"
	// Withhold sends no reply. Before: the message is as good as lost.
	Withhold Action = "withhold"
	// Delay applies the message and replies Delay later. The topic is busy
	// meanwhile: what follows on it is sent afterwards, in order, and a second
	// reply that is late waits Delay longer than the first.
	Delay Action = "delay"
	// Double sends the reply twice, the second time after Delay.
	Double Action = "double"
	// Reorder sends the reply behind the next message on its topic, or after
	// Delay if none comes, which defaults to one second.
	Reorder Action = "reorder"
	// Stall handles the message, and then nothing more from this socket for
	// Delay: the client's writes fill the network's buffers, then block.
	Stall Action = "stall"
	// Restart ends every connection with Code, 1012 by default, or without a
	// close frame if it is 1006, and for Delay accepts no other. The queue
	// survives.
	Restart Action = "restart"
	// Expire makes the token of the message's run expire, before the message is
	// handled. It does nothing else to it.
	Expire Action = "expire"
)

// When says on which side of a message's effect the fault lies.
type When string

// The moments.
const (
	// Before: the message has no effect.
	Before When = "before"
	// After: the message is applied; its sender is not told.
	After When = "after"
)

// spec is what an action can be combined with.
type spec struct {
	// when has the moments that can be asked for, the default first.
	when []When
	// delay and response say whether a rule may have one, and whether it must.
	delay, response need
	// codes says which codes it takes.
	codes codes
	// now, connect, heartbeat and leave say whether those events can have it, and noJoin that a join cannot.
	now, connect, heartbeat, leave, noJoin bool
}

type need int

const (
	never need = iota
	optional
	required
)

type codes int

const (
	noCodes    codes = iota
	closeCodes       // that can be sent in a close frame
	endCodes         // closeCodes and 1006
	httpCodes        // of a refused upgrade
)

// Abnormal is the code of a connection that ended without a close frame.
const Abnormal = 1006

var specs = map[Action]spec{
	Drop:     {when: []When{Before, After}, now: true, connect: true, heartbeat: true, leave: true},
	Close:    {when: []When{Before, After}, codes: closeCodes, now: true, heartbeat: true, leave: true},
	Crash:    {when: []When{Before, After}},
	Refuse:   {when: []When{Before}, response: optional, codes: httpCodes, connect: true},
	Answer:   {when: []When{Before}, response: required, noJoin: true},
	Withhold: {when: []When{After, Before}, heartbeat: true, leave: true},
	Delay:    {when: []When{After}, delay: required, connect: true, heartbeat: true, leave: true},
	Double:   {when: []When{After}, delay: optional, heartbeat: true, leave: true},
	Reorder:  {when: []When{After}, delay: optional, heartbeat: true, leave: true},
	Stall:    {when: []When{After}, delay: required, now: true, heartbeat: true, leave: true},
	Restart:  {when: []When{Before, After}, delay: optional, codes: endCodes, now: true, heartbeat: true, leave: true},
	Expire:   {when: []When{Before}, now: true, leave: true},
}

// can reports whether an event can have the action.
func (s spec) can(event string) bool {
	switch event {
	case Now:
		return s.now
	case Connect:
		return s.connect
	case Heartbeat:
		return s.heartbeat
	case Leave:
		return s.leave
	case Join:
		return !s.noJoin
	}
	return true
}

// Events returns the events that a rule can name.
func Events() []string { return slices.Clone(events) }

// Actions returns the names of all actions, in the order of the alphabet.
func Actions() []Action {
	all := make([]Action, 0, len(specs))
	for a := range specs {
		all = append(all, a)
	}
	slices.Sort(all)
	return all
}

func (c codes) take(code int) bool {
	switch c {
	case closeCodes:
		return code >= 1000 && code <= 4999 && code != 1005 && code != Abnormal && code != 1015
	case endCodes:
		return code == Abnormal || closeCodes.take(code)
	case httpCodes:
		return code >= 400 && code <= 599
	default:
		return false
	}
}

// InvalidError refuses a rule.
type InvalidError struct {
	Field  string // such as delay, or [1].delay in a list
	Reason string // such as "can't be blank"
}

func (e *InvalidError) Error() string { return fmt.Sprintf("bad fault: %s %s", e.Field, e.Reason) }
