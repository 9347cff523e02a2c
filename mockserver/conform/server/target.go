package server

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"time"

	"github.com/phxworker/phxworker/mockserver"
)

// Target is a server under test, and what has to be done on its other side.
type Target struct {
	// URL is what workers connect to, such as wss://lightning.example.org/worker.
	URL string
	// Secret is what they sign their tokens with: WORKER_SECRET.
	Secret string
	// PublicKey verifies the tokens of runs: WORKER_LIGHTNING_PUBLIC_KEY, PEM in base64. Without it they are not
	// verified.
	PublicKey string
	// Enqueue puts a run into the queue, and returns its id. The plan has one or two jobs; a server that makes plans of
	// its own may queue another one with as many. It returns [ErrCannot] rather than leave out what is asked for.
	Enqueue func(ctx context.Context, run mockserver.Run) (id string, err error)
	// Cancel cancels a run, Notify sends its worker an object, and Drain asks all workers to stop. The cases that
	// need one that is nil, or that returns [ErrCannot], are not tried.
	Cancel func(ctx context.Context, id, message string) error
	Notify func(ctx context.Context, id string, notice json.RawMessage) error
	Drain  func(ctx context.Context) error
	// Janitor is how often the server looks for runs that are overdue. Defaults to 5 minutes, as at Lightning.
	Janitor time.Duration
	// Dial opens the connections. Defaults to that of package net.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// ErrCannot is returned by what a [Target] is asked for and cannot do. The case is not tried then.
var ErrCannot = errors.New("the server under test cannot do that")

// Servers are where the cases get their servers from. The zero value is good for listing cases only.
type Servers struct {
	open   func(context.Context) (Target, func(), error)
	shared bool
}

// Shared is one server for all cases. They have its queue for themselves, so they are tried one by one, and what an
// earlier case left in the queue is completed before the next one begins.
func Shared(target Target) Servers {
	return Servers{shared: true, open: func(context.Context) (Target, func(), error) { return target, nil, nil }}
}

// Fresh is a server of its own for each case. The function that open returns is called when the case is over.
func Fresh(open func(context.Context) (Target, func(), error)) Servers { return Servers{open: open} }

// Shared reports whether the cases have to be tried one by one.
func (s Servers) Shared() bool { return s.shared }
