package lightning

import (
	"cmp"
	"crypto/rsa"
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// Config are the options of a [Service]: those of the same names in
// [github.com/phxworker/phxworker/mockserver.Config], where they are described, with the same
// defaults; only Secret is required, and MaxQueued defaults to no limit.
type Config struct {
	Secret          string
	Key             *rsa.PrivateKey
	OpaqueTokens    bool
	RunTimeout      time.Duration
	WakeDebounce    time.Duration
	JanitorInterval time.Duration
	KeepRuns        int
	WipeDataclips   bool
	MaxQueued       int
	Dataclips       Dataclips
	Logger          *slog.Logger
	// Beyond is what a server knows that Lightning does not. Defaults to nil: nothing.
	Beyond Beyond
}

func (c Config) withDefaults() (Config, error) {
	if c.Secret == "" {
		return c, errors.New("a worker secret is needed to verify the tokens of workers: set Config.Secret")
	}
	c.RunTimeout = cmp.Or(max(c.RunTimeout, 0), 5*time.Minute)
	c.WakeDebounce = cmp.Or(c.WakeDebounce, 500*time.Millisecond)
	c.JanitorInterval = cmp.Or(max(c.JanitorInterval, 0), 5*time.Minute)
	c.KeepRuns = cmp.Or(c.KeepRuns, 10_000)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c, nil
}

// Beyond is told what becomes of the runs. Its methods are called with the [Service] locked,
// and must not wait.
type Beyond interface {
	// Enqueued is called for a run that was put into the queue for the first time.
	Enqueued(r *Entry)
	// Finished is called for a run that has ended.
	Finished(r *Entry)
	// Keeps reports whether the janitor is to leave a run alone that is overdue.
	Keeps(r *Entry) bool
}

// grace is what a run is given beyond its time limit, by its token and by the
// janitor alike.
const grace = 10 * time.Second

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

// NotAgreedError says that the worker of a run, or the server, does not know the extension
// that would be needed. Lightning knows none.
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
