package mockserver

import (
	"errors"

	"github.com/phxworker/phxworker/mockserver/extended"
	"github.com/phxworker/phxworker/mockserver/fault"
	"github.com/phxworker/phxworker/mockserver/lightning"
	"github.com/phxworker/phxworker/mockserver/phoenix"
)

// What the queue takes and gives.
type (
	// Run is a run to be queued.
	Run = lightning.Run
	// Priority orders the runs of a queue.
	Priority = lightning.Priority
	// State is how far a run has come.
	State = lightning.State
	// Result is how a run ended.
	Result = lightning.Result
	// RunRecord is all that is known of a run.
	RunRecord = extended.RunRecord
	// Event is a push that came in on a run's topic.
	Event = lightning.Event
	// ConflictError refuses a run whose id is taken.
	ConflictError = lightning.ConflictError
	// InvalidError refuses a run whose plan is not one.
	InvalidError = lightning.InvalidError
	// Dataclips is which form of a step's output is taken.
	Dataclips = lightning.Dataclips
	// Owner is who had a run, in extended mode.
	Owner = extended.Owner
	// End is how an owner's time with a run ended.
	End = extended.End
	// WorkerRecord is a worker, in extended mode.
	WorkerRecord = extended.WorkerRecord
	// FullError refuses a run because enough wait.
	FullError = lightning.FullError
	// StateError says that a run is not in the state for what was asked.
	StateError = lightning.StateError
	// NotAgreedError says that a worker does not know an extension.
	NotAgreedError = lightning.NotAgreedError
	// RunSummary is a run in one line.
	RunSummary = lightning.Summary
	// RunQuery says which runs to list.
	RunQuery = lightning.Query
	// RunPage is a part of the list of runs.
	RunPage = lightning.Page
	// Change is something that happened.
	Change = lightning.Change
	// GroupRecord is a slot group of a worker.
	GroupRecord = lightning.GroupRecord
	// Exchange is one websocket message.
	Exchange = phoenix.Exchange
)

// The priorities.
const (
	Normal    = lightning.Normal
	Immediate = lightning.Immediate
)

// The ends of an owner's time with a run.
const (
	Completed    = extended.Completed
	OwnerLost    = extended.OwnerLost
	LeaseExpired = extended.LeaseExpired
	Silent       = extended.Silent
	Released     = extended.Released
	NotJoined    = extended.NotJoined
)

// The forms of a step's output.
const (
	EitherDataclips = lightning.EitherDataclips
	ObjectDataclips = lightning.ObjectDataclips
	TextDataclips   = lightning.TextDataclips
)

// ErrNotification is what [Server.Notify] says of a payload that is not a JSON object.
var ErrNotification = errors.New("a notification must be a JSON object")

// The errors of [Server.Wait], beside those of its context.
var (
	ErrUnknownRun = lightning.ErrUnknownRun
	ErrClosed     = lightning.ErrClosed
)

// Stats counts what happened; see the fields of [lightning.Stats].
type Stats struct {
	Sockets int                    `json:"sockets"` // now
	Faults  map[fault.Action]int64 `json:"faults"`  // that struck, by action
	lightning.Stats

	Extended extended.Stats `json:"extended,omitzero"` // in extended mode only
}

// ExtensionNames returns the names of the extensions that [Extended] knows.
func ExtensionNames() []string { return extended.Names() }
