package claim

import (
	"context"
	"log/slog"
	"time"

	"github.com/phxworker/phxworker/slots"
)

// What a zero Config uses: OpenFn's own worker has the same back-off.
const (
	DefaultMinBackoff = time.Second
	DefaultMaxBackoff = 10 * time.Second
)

// Config is what a [Loop] works with.
type Config struct {
	// Pool has the slots of the loop's group. The loop must be the only one
	// that reserves from it. Required.
	Pool *slots.Pool
	// Claimer puts the claims to the server. Required.
	Claimer Claimer
	// Starter takes the runs. Required.
	Starter Starter
	// WorkerName is sent with each claim. Defaults to none, which is null on
	// the wire.
	WorkerName string
	// Verifier checks the token of each run. Defaults to nil: tokens are not
	// checked.
	Verifier *Verifier
	// Refused is told of each run whose token the verifier refused, and why; it must not
	// wait. Defaults to a line in the log.
	Refused func(run Run, err error)
	// DemandAll asks for as many runs in one claim as there are open slots.
	// Defaults to one run a claim, which spreads runs over the workers.
	DemandAll bool
	// MinBackoff is the pause after the first claim that brought nothing.
	// Defaults to DefaultMinBackoff.
	MinBackoff time.Duration
	// MaxBackoff is the longest pause. Defaults to DefaultMaxBackoff, and is
	// raised to MinBackoff if it is less.
	MaxBackoff time.Duration
	// Gate is asked before each claim. An error holds the claim back; the gate is
	// asked again when the next claim is due, a back-off later. The context is
	// the intake of [Loop.Run]. A gate runs on the loop's goroutine: while it
	// ponders, its group claims nothing, which is logged after a minute. Defaults to none,
	// which is always open.
	Gate func(ctx context.Context) error
	// Return returns a run to the queue that was claimed and not begun when the loop is
	// stopped, and reports whether the server took it. Defaults to none: the run is
	// started.
	Return func(ctx context.Context, run Run) bool
	// Prefetcher makes the loop claim one run more than it has slots for, so that it
	// is there when a slot is freed. Defaults to none.
	Prefetcher Prefetcher
	// Paused makes a loop that claims only when [Loop.Claim] is called, until
	// [Loop.Resume].
	Paused bool
	// Logger gets the attribute "group". Defaults to none.
	Logger *slog.Logger
}

func (c Config) withDefaults() Config {
	if c.MinBackoff <= 0 {
		c.MinBackoff = DefaultMinBackoff
	}
	if c.MaxBackoff <= 0 {
		c.MaxBackoff = DefaultMaxBackoff
	}
	c.MaxBackoff = max(c.MaxBackoff, c.MinBackoff)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// missing returns the name of a required field that is not set, or "".
func (c Config) missing() string {
	switch {
	case c.Pool == nil:
		return "Pool"
	case c.Claimer == nil:
		return "Claimer"
	case c.Starter == nil:
		return "Starter"
	default:
		return ""
	}
}
