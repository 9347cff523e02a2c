package lightning

import (
	"errors"
	"fmt"
)

var (
	// ErrUnknownRun says that a run was never here, or is forgotten by now.
	ErrUnknownRun = errors.New("no such run: it was never queued, or it ended and is forgotten")
	// ErrClosed says that the server was closed.
	ErrClosed = errors.New("the mock server is closed")
)

// ConflictError refuses a run whose id is taken.
type ConflictError struct{ ID string }

func (e *ConflictError) Error() string {
	return fmt.Sprintf("run %q exists already: choose another id, or leave it out", e.ID)
}

// InvalidError refuses a run whose plan no worker could execute.
type InvalidError struct {
	Field  string // such as jobs or jobs[0].id
	Reason string // such as "can't be blank"
}

func (e *InvalidError) Error() string { return fmt.Sprintf("bad plan: %s %s", e.Field, e.Reason) }
