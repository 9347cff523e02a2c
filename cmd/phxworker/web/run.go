package web

import (
	"time"

	"github.com/phxworker/phxworker/runner"
)

// Run is a run under way.
type Run struct {
	ID         string  `json:"id"`
	Group      string  `json:"group"`
	AgeSeconds Seconds `json:"age_seconds"` // since it was claimed
	// Phase is "joining", "loading", "preparing", "executing" or "reporting".
	Phase        string  `json:"phase"`
	PhaseSeconds Seconds `json:"phase_seconds"`
	// Job is the id of the job that is executed; empty between jobs.
	Job            string    `json:"job,omitempty"`
	Started        time.Time `json:"started,omitzero"` // when it began to execute
	Unacknowledged int       `json:"unacknowledged"`   // events that the server has not answered
}

// Doing says in words what a run does now, which answers why it takes so long.
func (r Run) Doing() string {
	doing := r.Phase + " for " + r.PhaseSeconds.String()
	switch r.Phase {
	case "joining":
		doing += ", the server has not let it onto its topic yet"
	case "loading":
		doing += ", fetching plan, dataclip and credentials"
	case "preparing":
		doing += ", getting the adaptors ready"
	}
	if r.Job != "" {
		doing += ", job " + r.Job
	}
	if r.Unacknowledged > 0 {
		doing += ", " + count(r.Unacknowledged, "event") + " unacknowledged"
	}
	return doing
}

// Result is how a run ended. Its error's message is left out: it may quote data.
type Result struct {
	ID          string    `json:"id"`
	Group       string    `json:"group"`
	Reason      string    `json:"reason"` // empty if it ended elsewhere
	ErrorType   string    `json:"error_type,omitempty"`
	TookSeconds Seconds   `json:"took_seconds"` // from the claim
	Ended       time.Time `json:"ended"`
	Undelivered bool      `json:"undelivered,omitempty"` // the server could not be told
	// Settled is what became of it in the server's queue; see [runner.Settlement].
	Settled runner.Settlement `json:"settled"`
}

// Elsewhere says in words what became of a run that did not end here; empty for others.
func (r Result) Elsewhere() string {
	switch {
	case r.Settled.InQueue():
		return "returned to the queue"
	case r.Settled == runner.LeaseLost:
		return "another worker's"
	}
	return ""
}

// Ending says in words how a run ended.
func (r Result) Ending() string {
	if elsewhere := r.Elsewhere(); elsewhere != "" {
		return elsewhere
	}
	ending := r.Reason
	if r.ErrorType != "" {
		ending += " " + r.ErrorType
	}
	if r.Undelivered {
		ending += ", server not told"
	}
	return ending
}
