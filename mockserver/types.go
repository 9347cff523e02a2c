package mockserver

import (
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
	RunRecord = lightning.RunRecord
	// Event is a push that came in on a run's topic.
	Event = lightning.Event
	// ConflictError refuses a run whose id is taken.
	ConflictError = lightning.ConflictError
	// InvalidError refuses a run whose plan is not one.
	InvalidError = lightning.InvalidError
	// Exchange is one websocket message.
	Exchange = phoenix.Exchange
)

// The priorities.
const (
	Normal    = lightning.Normal
	Immediate = lightning.Immediate
)

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
}
