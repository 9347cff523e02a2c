package lightning

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/phxworker/phxworker/mockserver/fault"
)

// Priority orders the runs of a queue. As a number in Lightning's table, and in
// the HTTP interface, Immediate is 0 and Normal is 1.
type Priority int

// The priorities. Immediate runs are claimed before normal ones.
const (
	Normal Priority = iota
	Immediate
)

func (p Priority) String() string {
	if p == Immediate {
		return "immediate"
	}
	return "normal"
}

// MarshalText writes the priority's name.
func (p Priority) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText reads what MarshalText writes, and nothing else.
func (p *Priority) UnmarshalText(text []byte) error {
	switch string(text) {
	case Normal.String():
		*p = Normal
	case Immediate.String():
		*p = Immediate
	default:
		return fmt.Errorf("there is no priority %q: it is normal or immediate", text)
	}
	return nil
}

// State is how far a run has come.
type State string

// The states of a run, as Lightning names them. The last seven are final.
const (
	Available State = "available"
	Claimed   State = "claimed"
	Started   State = "started"
	Success   State = "success"
	Failed    State = "failed"
	Crashed   State = "crashed"
	Killed    State = "killed"
	Cancelled State = "cancelled"
	Exception State = "exception"
	Lost      State = "lost"
)

// States are all of them, in the order in which a run can come to them.
var States = []State{Available, Claimed, Started, Success, Failed, Crashed, Killed, Cancelled, Exception, Lost}

// Final reports whether a run in this state has ended.
func (s State) Final() bool { return s != Available && s != Claimed && s != Started }

// stateOf gives the state in which a run ends by the reason a worker reports.
var stateOf = map[string]State{
	"success": Success, "fail": Failed, "crash": Crashed, "kill": Killed,
	"cancel": Cancelled, "exception": Exception,
}

// Run is a run to be queued.
type Run struct {
	// Plan is the JSON object that fetch:plan answers with, and holds the
	// run's id; one without an id is given one. See the worker protocol for its fields; only
	// jobs is required.
	Plan json.RawMessage
	// Queue is manual, fast_lane, default, or any other name. Defaults to default.
	Queue string
	// Priority defaults to Normal.
	Priority Priority
	// Dataclip is the run's input. Defaults to the dataclip that the plan's
	// dataclip_id names, if any; a plan without one is given an id for it.
	Dataclip json.RawMessage
	// Credentials are the run's own, by id; the others are looked for among
	// those of [Service.AddCredential].
	Credentials map[string]json.RawMessage
	// Key is what the run is about, such as a customer: runs with the same key
	// go to the same worker. Lightning knows of no such thing and refuses it; see package
	// extended. Defaults to none.
	Key string
}

// Result is how a run ended.
type Result struct {
	ID           string `json:"id"`
	State        State  `json:"state"`
	Reason       string `json:"reason"` // as reported; "lost" if the janitor ended it
	ErrorType    string `json:"error_type,omitempty"`
	ErrorMessage string `json:"error_message,omitempty"`
	// FinalState is nil if the worker sent none.
	FinalState      json.RawMessage `json:"final_state,omitempty"`
	FinalDataclipID string          `json:"final_dataclip_id,omitempty"`
}

// RunRecord is all that is known of a run. Times are zero while they have not
// come.
type RunRecord struct {
	Result
	Queue      string          `json:"queue"`
	Priority   Priority        `json:"priority"`
	Plan       json.RawMessage `json:"plan"`
	Worker     string          `json:"worker,omitempty"`      // the worker_id of who claimed it
	WorkerName string          `json:"worker_name,omitempty"` // of the claim
	// Group is the slot group that claimed it: the queues of its claim, such as manual>*.
	Group      string    `json:"group,omitempty"`
	EnqueuedAt time.Time `json:"enqueued_at"`
	ClaimedAt  time.Time `json:"claimed_at,omitzero"`
	JoinedAt   time.Time `json:"joined_at,omitzero"` // of its topic, first
	StartedAt  time.Time `json:"started_at,omitzero"`
	FinishedAt time.Time `json:"finished_at,omitzero"`
	// Input is its dataclip; nil if it has none, or none any more.
	Input json.RawMessage `json:"-"`
	// Events are the pushes on the run's topic in the order they came, the
	// refused ones among them.
	Events []Event `json:"events"`
	// Faults are what struck the messages on the run's topic. A message that a
	// fault kept from being applied is here and not among the Events.
	Faults []fault.Strike `json:"faults,omitempty"`
}

// Event is a push that came in on a run's topic.
type Event struct {
	At    time.Time `json:"at"`
	Event string    `json:"event"`
	// Payload is as it came; of a binary push it is
	// {"__binary_base64": "…"}.
	Payload json.RawMessage `json:"payload"`
	// Status is ok, error or crash.
	Status string `json:"status"`
	// Response is what an event with the status error was answered.
	Response json.RawMessage `json:"response,omitempty"`
	// Crash is why an event crashed the channel.
	Crash string `json:"crash,omitempty"`
	// Owner is which of the run's owners sent it, from 1, as the [Guard] of the topic says.
	// Lightning has none, and it is 0.
	Owner int `json:"owner,omitempty"`
}

// Entry is a run in the store. The lock of the [Service] guards everything but the constants.
type Entry struct {
	// Beyond is what the [Beyond] of the service, if there is one, keeps of the run. It is
	// guarded by Lock.
	Beyond any

	id          string                     // constant
	name        string                     // constant: of the workflow
	plan        json.RawMessage            // constant
	input       string                     // constant: the input dataclip's id, or empty
	erase       bool                       // constant: outputs are not kept
	timeout     time.Duration              // constant
	jobs        map[string]bool            // constant
	queue       string                     // constant
	priority    Priority                   // constant
	seq         uint64                     // constant: insertion order
	key         string                     // constant
	credentials map[string]json.RawMessage // constant: the run's own

	dataclip   json.RawMessage // its own input, nil if it has none
	wiped      bool            // the input was read, and is not to be read again
	claims     int             // how often it was claimed
	state      State
	result     Result
	worker     string // who claimed it
	workerName string
	group      string // of the claim
	token      string
	expires    time.Time // of the token
	enqueued   time.Time
	claimed    time.Time
	joined     time.Time // of its topic, first
	started    time.Time
	finished   time.Time
	steps      map[string]bool     // by id: whether complete
	outputs    map[string]struct{} // ids of the output dataclips
	events     []Event
	faults     []fault.Strike
	ended      chan struct{} // closed when the run ends; made by the first who waits
}

// ID returns the run's id.
func (r *Entry) ID() string { return r.id }

// Key returns [Run].Key.
func (r *Entry) Key() string { return r.key }

// Compare orders runs by when they were queued.
func (r *Entry) Compare(other *Entry) int { return cmp.Compare(r.seq, other.seq) }

// StateLocked returns how far the run has come.
func (r *Entry) StateLocked() State { return r.state }

// RecordLocked returns what is known of the run.
func (s *Service) RecordLocked(r *Entry) RunRecord {
	res := r.result
	res.ID, res.State = r.id, r.state
	input := r.dataclip
	if input == nil {
		input = s.dataclips[r.input]
	}
	if r.wiped {
		input = nil
	}
	return RunRecord{
		Result: res, Queue: r.queue, Priority: r.priority, Plan: r.plan, Worker: r.worker, WorkerName: r.workerName, Group: r.group, Input: input,
		EnqueuedAt: r.enqueued, ClaimedAt: r.claimed, JoinedAt: r.joined, StartedAt: r.started, FinishedAt: r.finished,
		Events: append([]Event{}, r.events...), Faults: slices.Clone(r.faults),
	}
}
