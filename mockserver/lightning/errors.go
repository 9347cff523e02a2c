package lightning

import (
	"errors"
	"fmt"
)

var (
	// ErrUnknownRun says that a run was never here, or is forgotten by now.
	ErrUnknownRun = errors.New("no such run: it was never queued, or it ended and is forgotten")
	// ErrNotification says that what a run was to be notified of is no JSON object.
	ErrNotification = errors.New("a notification must be a JSON object")
	// ErrClosed says that the server was closed.
	ErrClosed = errors.New("the mock server is closed")
)

// ConflictError refuses a run whose id is taken.
type ConflictError struct{ ID string }

func (e *ConflictError) Error() string {
	return fmt.Sprintf("run %q exists already: choose another id, or leave it out", e.ID)
}

// FullError refuses a run because enough wait to be claimed.
type FullError struct{ Limit int }

func (e *FullError) Error() string {
	return fmt.Sprintf("the queue is full: %d runs wait to be claimed; try again when workers have taken some", e.Limit)
}

// StateError says that a run has come too far for what was asked, or not far
// enough.
type StateError struct {
	ID    string
	State State
	// Problem is such as "it is over".
	Problem string
}

func (e *StateError) Error() string { return fmt.Sprintf("run %q is %s: %s", e.ID, e.State, e.Problem) }

// NotAgreedError says that the worker of a run does not know the extension that
// would be needed, or the server is not in extended mode.
type NotAgreedError struct{ ID, Extension string }

func (e *NotAgreedError) Error() string {
	return fmt.Sprintf("the worker of run %q has not agreed on the extension %s with the server", e.ID, e.Extension)
}

// InvalidError refuses a run whose plan no worker could execute.
type InvalidError struct {
	Field  string // such as jobs or jobs[0].id
	Reason string // such as "can't be blank"
}

func (e *InvalidError) Error() string { return fmt.Sprintf("bad plan: %s %s", e.Field, e.Reason) }
