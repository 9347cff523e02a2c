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
	// Demand is how many runs the server may give at most; at least 1.
	Demand int `json:"demand"`
	// WorkerName is the name that the server shows for whoever took the run; null when unset.
	WorkerName *string `json:"worker_name"`
	// Queues are in the order of preference, as in [slots.Group]. Do not change them: all requests
	// share them.
	Queues []string `json:"queues"`
	// WaitMS is how many milliseconds the server may wait for a run before it answers. The Claimer
	// sets it; see docs/extensions/longpoll.md.
	WaitMS int64 `json:"wait_ms,omitempty"`
}

// Run is one run that the server has given to this worker.
type Run struct {
	ID string `json:"id"`
	// Token opens the run's topic. It is a secret: a Run that is printed or logged leaves it out,
	// but one that is marshalled as JSON does not.
	Token string `json:"token"`
	// Lease is how long the run is this worker's from the reply on; 0 is for ever. The Claimer sets
	// it when the server tells it. See docs/extensions/lease.md.
	Lease time.Duration `json:"-"`
	// Attempt is the number of this attempt at the run, from 1 on; 0 when the server does not tell
	// it. The Claimer sets it. See docs/extensions/attempt.md.
	Attempt int `json:"-"`

	// Group is the name of the slot group that claimed it. The loop sets it, Claimed and Woken.
	Group string `json:"-"`
	// Claimed is when the loop had the reply that brought the run.
	Claimed time.Time `json:"-"`
	// Woken is when the wake-up came that the claim answered; zero for a claim without a wake-up.
	Woken time.Time `json:"-"`
}

// String returns the run's id.
func (r Run) String() string { return r.ID }

// GoString returns the run without its token.
func (r Run) GoString() string { return "claim.Run{ID:" + r.ID + "}" }

// LogValue returns the run's id, for a logger that is given the whole run.
func (r Run) LogValue() slog.Value { return slog.StringValue(r.ID) }

// Claimer sends claims to the server.
type Claimer interface {
	// Ready returns a closed channel when a claim can be sent now. Otherwise it returns a channel
	// that is closed when that may have changed. It must not wait.
	Ready() <-chan struct{}
	// Claim sends the request and returns the runs of the reply, which may be none. The loop ignores
	// the runs when err is not nil. When the request cannot be sent any more, Claim does not wait
	// but returns [ErrNotReady].
	//
	// The loop's slots stay reserved until Claim returns. So it must return as soon as the reply can
	// no longer come: when the connection or the topic is lost, or when ctx ends. ctx comes from the
	// work context of [Loop.Run] and not from the intake, since a reply on its way may bring a run.
	Claim(ctx context.Context, req Request) ([]Run, error)
}

// ErrNotReady is the error of a [Claimer] that has sent nothing because it is not ready any more. The
// claim does not count. The loop makes it once the Claimer is ready, if there is still a reason then.
var ErrNotReady = errors.New("not ready to claim: nothing was sent")

// Starter executes the runs that were claimed.
type Starter interface {
	// Start begins to execute run and returns without waiting for its end. The loop calls it on its
	// own goroutine, for one run at a time, in the order of the reply. The slot is filled already
	// and belongs to the Starter, who frees it when the run is over. The loop then claims again at
	// once. So a Starter that cannot execute a run must hold the slot for a moment: otherwise the
	// server would hand out one run after the other.
	Start(run Run, slot *slots.Slot)
}

// Prefetcher is a [Starter] that can also begin with a run which has no slot yet.
type Prefetcher interface {
	// CanPrefetch reports whether the server would take back a run that was claimed ahead.
	CanPrefetch() bool
	// Prefetch does everything for the run that can be done before it has a slot. It does not wait
	// for that.
	Prefetch(run Run) Ahead
}

// Ahead is a run that was claimed ahead.
type Ahead struct {
	// Start is [Starter.Start]. The loop calls it once at most and calls nothing after it. If the
	// run is over already, Start frees the slot at once.
	Start func(slot *slots.Slot)
	// Return asks for the run to be returned to the queue and does not wait for that. Until the run
	// is over, the loop may still call Start, or Return again.
	Return func()
	// Over is closed when the run has ended without a slot.
	Over <-chan struct{}
}

// Options say how a worker claims. The zero value is ready to be used.
type Options struct {
	// MinBackoff and MaxBackoff bound the wait between claims that bring no run. They default to 1 s
	// and 10 s, as with OpenFn's own worker. If only one is given, the other's default is moved to
	// the same value where it would be on the wrong side.
	MinBackoff, MaxBackoff time.Duration
	// Timeout is how long a claim waits for its reply. It is long because the server may already
	// have given a run away. Defaults to an hour.
	Timeout time.Duration
	// DemandAll makes each claim ask for as many runs as the group has open slots, or for a few
	// while the engine has not shown that it can execute runs. Defaults to one run a claim, which
	// spreads runs over the workers.
	DemandAll bool
	// Manual makes a worker that claims only on request ([Loop.Claim]) until it is resumed.
	Manual bool
	// Prefetch claims one run more for each group than it has slots, so that this run is there
	// when a slot is freed. It has no effect if the server takes no runs back.
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
	Options

	// Pool has the slots of the loop's group. Nobody but the loop may reserve from it. Required.
	Pool *slots.Pool
	// Claimer sends the claims to the server. Required.
	Claimer Claimer
	// Starter executes the runs. With Prefetch it should be a [Prefetcher]; if it is not, no run is
	// claimed ahead. Required.
	Starter Starter
	// WorkerName is sent with each claim. Defaults to none, which is null on the wire.
	WorkerName string
	// Verifier checks the token of each run. Defaults to none: tokens are not checked.
	Verifier *Verifier
	// Refused is called for each run that is not started because of its id or token, with the
	// reason. It must not wait. Defaults to a line in the log.
	Refused func(run Run, err error)
	// Gate is asked before each claim, with the name of the group. An error holds the claim back,
	// and the gate is asked again when the next claim is due, a back-off later. The context is the
	// intake of [Loop.Run]. The gate runs on the loop's goroutine: until it answers, its group
	// claims nothing, which is logged after a minute. Defaults to none, which is always open.
	Gate func(ctx context.Context, group string) error
	// Return is called, when the loop stops, for each run that has no slot. It returns the run to
	// the queue and reports whether the server took it. Defaults to none: the run is started.
	Return func(ctx context.Context, run Run) bool
	// Logger gets the attribute "group". Defaults to none.
	Logger *slog.Logger
}
