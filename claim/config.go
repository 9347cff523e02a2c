package claim

import (
	"context"
	"log/slog"
	"time"

	"github.com/phxworker/phxworker/slots"
)

// Options say how a worker claims. The zero value is ready to be used.
type Options struct {
	// MinBackoff and MaxBackoff bound the pause between claims that bring nothing. They
	// default to 1 s and 10 s, as with OpenFn's own worker; a MaxBackoff that is not
	// given is never less than MinBackoff.
	MinBackoff, MaxBackoff time.Duration
	// Timeout is how long the reply to a claim is waited for. It is long, because the server
	// may have given a run away already. Defaults to an hour.
	Timeout time.Duration
	// DemandAll asks for as many runs in one claim as the group has open slots; a worker whose
	// engine has not shown that it can execute them asks for a few. Defaults to one run a
	// claim, which spreads runs over the workers.
	DemandAll bool
	// Manual makes a worker that claims only when it is asked to ([Loop.Claim]), until it is
	// resumed.
	Manual bool
	// Prefetch claims one run more for each group than it has slots for, so that it is there
	// when a slot is freed, where the server takes back what waits too long.
	Prefetch bool
}

// WithDefaults returns a copy of o with the zero fields filled.
func (o Options) WithDefaults() Options {
	if o.MinBackoff <= 0 {
		o.MinBackoff = time.Second
	}
	if o.MaxBackoff <= 0 {
		o.MaxBackoff = 10 * time.Second
	}
	o.MaxBackoff = max(o.MaxBackoff, o.MinBackoff)
	if o.Timeout <= 0 {
		o.Timeout = time.Hour
	}
	return o
}

// Config is what a [Loop] works with.
type Config struct {
	// Options say how it claims.
	Options

	// Pool has the slots of the loop's group. The loop must be the only one
	// that reserves from it. Required.
	Pool *slots.Pool
	// Claimer puts the claims to the server. Required.
	Claimer Claimer
	// Starter takes the runs. It must be a [Prefetcher] as well if runs are to be
	// claimed ahead. Required.
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
	// Gate is asked before each claim, with the name of the group. An error holds the claim
	// back; the gate is asked again when the next claim is due, a back-off later. The context
	// is the intake of [Loop.Run]. A gate runs on the loop's goroutine: while it
	// ponders, its group claims nothing, which is logged after a minute. Defaults to none,
	// which is always open.
	Gate func(ctx context.Context, group string) error
	// Return returns a run to the queue that was claimed and not begun when the loop is
	// stopped, and reports whether the server took it. Defaults to none: the run is
	// started.
	Return func(ctx context.Context, run Run) bool
	// Logger gets the attribute "group". Defaults to none.
	Logger *slog.Logger
}

// missing returns the name of a required field that is not set, or "".
func (c *Config) missing() string {
	_, prefetches := c.Starter.(Prefetcher)
	switch {
	case c.Pool == nil:
		return "Pool"
	case c.Claimer == nil:
		return "Claimer"
	case c.Starter == nil, c.Prefetch && !prefetches:
		return "Starter"
	default:
		return ""
	}
}
