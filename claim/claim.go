package claim

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/phxworker/phxworker/slots"
)

// Request is the payload of a claim. All three fields are always sent: Lightning's
// channel crashes when Demand or WorkerName is missing.
type Request struct {
	// Demand is the most runs the server may return, at least 1.
	Demand int `json:"demand"`
	// WorkerName is shown by the server as who took the run; null when unset.
	WorkerName *string `json:"worker_name"`
	// Queues in the order of preference, as in [slots.Group]. Shared between
	// requests: to be read only.
	Queues []string `json:"queues"`
	// WaitMS is for how many milliseconds the server may wait for a run before it
	// answers. It is the Claimer's to set; see docs/extensions/longpoll.md.
	WaitMS int64 `json:"wait_ms,omitempty"`
}

// Run is one run that the server has given to this worker.
type Run struct {
	ID string `json:"id"`
	// Token opens the run's topic. It is a secret: it is left out wherever a
	// Run is printed or logged, but not when it is marshalled as JSON.
	Token string `json:"token"`
	// Lease is for how long the run is this worker's; 0 is for ever. The Claimer
	// sets it, and Attempt, where the server tells. See docs/extensions/lease.md.
	Lease time.Duration `json:"-"`
	// Attempt is which attempt at the run this is, from 1 on; 0 when
	// the server does not tell. See docs/extensions/attempt.md.
	Attempt int `json:"-"`

	// Group is the name of the slot group that it was claimed for.
	Group string `json:"-"`
	// Claimed is when the loop had the reply that brought the run.
	Claimed time.Time `json:"-"`
	// Woken is when the wake-up came that the claim answered, zero for a claim
	// that was made without one.
	Woken time.Time `json:"-"`
}

// String returns the run's id.
func (r Run) String() string { return r.ID }

// GoString returns the run without its token.
func (r Run) GoString() string { return "claim.Run{ID:" + r.ID + "}" }

// LogValue returns the run's id, for a logger that is given the whole run.
func (r Run) LogValue() slog.Value { return slog.StringValue(r.ID) }

// Claimer puts a claim to the server.
type Claimer interface {
	// Ready returns a channel that is closed while a claim can be put, and else one that
	// is closed when that may have changed. It must not wait.
	Ready() <-chan struct{}
	// Claim sends the request and returns the runs of the reply, none if there was
	// nothing. The runs are ignored when err is not nil. It does not wait until it can
	// send: should that not be possible any more, it returns [ErrNotReady].
	//
	// The loop's slots stay reserved until Claim returns, so it must return
	// as soon as the reply can no longer come: when the connection or the topic
	// is lost, and when ctx is done. ctx is the work context of [Loop.Run], which
	// outlives the intake: a reply that is on its way may bring a run.
	Claim(ctx context.Context, req Request) ([]Run, error)
}

// ErrNotReady is returned by a [Claimer] that has sent nothing, because it is not ready any
// more. The claim does not count, and is made when the Claimer is ready again, if there
// is still a reason for it then.
var ErrNotReady = errors.New("not ready to claim: nothing was sent")

// Starter takes the runs that were claimed.
type Starter interface {
	// Start begins to execute run and returns without waiting for it. It is
	// called by the loop's goroutine, one run at a time, in the order of the
	// reply. The slot is filled with the run already; from here on it belongs
	// to the Starter, who frees it when the run is over. That makes the loop
	// claim again at once, so a Starter must not make short work of runs that it
	// cannot execute: the server would hand out the next, and the next.
	Start(run Run, slot *slots.Slot)
}

// Prefetcher is a [Starter] that begins with runs which have no slot yet.
type Prefetcher interface {
	// CanPrefetch reports whether a run that is claimed ahead could be returned.
	CanPrefetch() bool
	// Prefetch does what can be done of the run before it has a slot. It returns
	// without waiting for that.
	Prefetch(run Run) Ahead
}

// Ahead is a run that was claimed ahead.
type Ahead struct {
	// Start is [Starter.Start]. It is called once at most, and nothing after it. If
	// the run is over already, it frees the slot at once.
	Start func(slot *slots.Slot)
	// Return asks for the run to be returned to the queue, and does not wait for that. Until
	// the run is over it may still be started, or asked for again.
	Return func()
	// Over is closed when the run has ended without a slot.
	Over <-chan struct{}
}

// Options say how a worker claims. The zero value is ready to be used.
type Options struct {
	// MinBackoff and MaxBackoff bound the pause between claims that bring nothing. They
	// default to 1 s and 10 s, as with OpenFn's own worker; of a single one that is given, the
	// other never gets on the wrong side.
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
	shortest, longest := cmp.Or(o.MinBackoff, time.Second), cmp.Or(o.MaxBackoff, 10*time.Second)
	if o.MinBackoff == 0 {
		shortest = min(shortest, longest)
	}
	o.MinBackoff, o.MaxBackoff = shortest, max(shortest, longest)
	o.Timeout = cmp.Or(o.Timeout, time.Hour)
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
	// Starter takes the runs. With Prefetch it is a [Prefetcher] as well; one that is none
	// has no run claimed ahead. Required.
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
