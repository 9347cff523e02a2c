package runner

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/phxworker/phxworker/channel"
	"github.com/phxworker/phxworker/channel/extension"
	"github.com/phxworker/phxworker/claim"
)

// Config is what a [Runner] needs. The zero values of all but Engine are the
// defaults.
type Config struct {
	// Engine executes the plans.
	Engine Engine
	// Limits are the worker's own; see [Limits] for their defaults.
	Limits Limits
	// Version is the worker's, as run:start tells it. Defaults to "dev".
	Version string
	// MessageTimeout is how long an event may go unanswered before its topic is joined
	// anew, which tells whether it had arrived. Each time that the same event goes
	// unanswered again, it is given twice as long. Defaults to 30 s.
	MessageTimeout time.Duration
	// OutboxBytes bounds the events of one run that the server has not
	// acknowledged yet. Defaults to 16 MiB.
	OutboxBytes int
	// EngineGrace is how long an engine has to return after its context
	// ended. Defaults to 5 s.
	EngineGrace time.Duration
	// NativeDataclips sends the output of a step as a JSON object, and not as a text with JSON in it.
	NativeDataclips bool
	// LogsAtMostOnce sends no log line again of which nobody knows whether it
	// arrived. By default each arrives at least once, and Lightning stores one
	// that comes twice twice.
	LogsAtMostOnce bool
	// BatchLogs sends several lines in one message. Defaults to off.
	BatchLogs BatchLogs
	// Middleware is around the execution of every run, the first outermost.
	Middleware []Middleware
	// Accept decides which runs are executed here. Defaults to all.
	Accept AcceptFunc
	// RefuseUnsuitable ends a run that Accept returns as an exception when the
	// server takes no runs back. By default it is executed then.
	RefuseUnsuitable bool
	// MaxAttempts is how often a run may be tried, where the server counts.
	// Defaults to 3; negative: as often as it likes.
	MaxAttempts int
	// Health is told how the engine does. Defaults to nobody; a run that the engine is not
	// able to prepare then ends at once.
	Health Health
	// Releaser returns runs. Defaults to none: they are reported as exceptions.
	Releaser Releaser
	// Extensions are what is offered to the server. Defaults to none.
	Extensions *extension.Set
	// Spool is the folder for what could not be reported; see [Spooled].
	// Defaults to none: it is logged and lost.
	Spool string
	// Logger defaults to one that discards.
	Logger *slog.Logger
}

func (c Config) withDefaults() Config {
	c.Limits = c.Limits.WithDefaults()
	if c.Version == "" {
		c.Version = "dev"
	}
	if c.MessageTimeout == 0 {
		c.MessageTimeout = 30 * time.Second
	}
	if c.OutboxBytes == 0 {
		c.OutboxBytes = 16 << 20
	}
	if c.MaxAttempts == 0 {
		c.MaxAttempts = 3
	}
	if c.EngineGrace == 0 {
		c.EngineGrace = 5 * time.Second
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// Runner takes claimed runs to their end. It keeps nothing between runs but
// numbers, and its methods may be called concurrently.
type Runner struct {
	cfg   Config
	tally tally
	plans *semaphore.Weighted // the memory for large plans, see planRoom
	// batched is set once the server has taken a run:batch_logs, unbatched when it was found
	// not to know it.
	batched, unbatched atomic.Bool
	// toldUntold is for what is worth a line once: a server makes all of its tokens alike.
	toldUntold sync.Once

	mu      sync.Mutex
	active  map[*Run]bool
	hurried time.Time // when it was last; see hurry
}

// New returns a Runner.
func New(cfg Config) *Runner {
	return &Runner{cfg: cfg.withDefaults(), active: make(map[*Run]bool), plans: semaphore.NewWeighted(maxPlan)}
}

// Outcome is how a run went.
type Outcome struct {
	RunID string
	// Reason is what run:complete said, or would have said; empty when the run was
	// returned.
	Reason Reason
	// Type and Message are empty after a success. Of a run that was returned, the
	// message says why.
	Type, Message string
	// Err is set when the server was not told: why it could not be.
	Err error
	// Settled is what became of the run in the server's queue.
	Settled Settlement
	// Joined is set when the server let the worker onto the run's topic.
	Joined bool
	// Stopped is set when the run was ended, or returned, because work had ended.
	Stopped bool
	// Unable is set when it was this worker that could not execute the run; see [Unable].
	Unable bool
	// Took is the time from the join of the topic to the end.
	Took time.Duration
}

// Joiner joins topics; a [*channel.Socket] does.
type Joiner interface {
	Join(ctx context.Context, name string, payload any) (*channel.Topic, error)
}

var _ Joiner = (*channel.Socket)(nil)

// Run executes a claimed run, and returns when the server has been told how it
// ended, or when it cannot be.
//
// When work ends, the engine is stopped and the run is reported as a Cancel; so
// is one whose work has ended before it began. What the server is told, it is told under
// report, which must outlast work by as long as that may take.
//
// Unless begin is nil, it holds the run back once its plan is there: it receives nil when the
// run may go on, and an error to end it as an engine's would.
func (r *Runner) Run(work, report context.Context, socket Joiner, given claim.Run, begin <-chan error) Outcome {
	began := time.Now()
	if given.Claimed.IsZero() {
		given.Claimed = began
	}
	labels := []slog.Attr{slog.String("run_id", given.ID)}
	if given.Group != "" {
		labels = append(labels, slog.String("group", given.Group))
	}
	log := slog.New(r.cfg.Logger.Handler().WithAttrs(labels))
	run := &Run{
		ID: given.ID, Plan: &Plan{ID: given.ID}, Limits: r.cfg.Limits, Attempt: given.Attempt,
		scrub: newScrubber(given.Token, nil), log: log, given: given, begin: begin, logsAtMostOnce: r.cfg.LogsAtMostOnce, nativeDataclips: r.cfg.NativeDataclips, tally: &r.tally,
		settled: Unsettled, phase: Joining, since: began, noticing: make(chan struct{}, 1), able: func() {},
	}
	r.enlist(run)
	defer r.dismiss(run)

	topic, err := socket.Join(report, "run:"+given.ID, joinPayload{token: given.Token, set: r.cfg.Extensions})
	if err != nil {
		return r.notJoined(run, err, began)
	}
	log.Debug("run joined")

	failure, err := r.attend(work, report, topic, run)
	// The run is over; a topic that stays behind is no fault of it.
	if err := topic.Leave(report); err != nil {
		log.Debug("cannot leave the topic of a run", "error", err)
	}
	out := r.conclude(run, failure, err, began)
	out.Joined = true
	return out
}

// notJoined is the outcome of a run that the server does not let us join.
func (r *Runner) notJoined(run *Run, err error, begin time.Time) Outcome {
	failure := &Failure{Reason: Exception, Type: "JoinError", Message: err.Error()}
	if isLeaseLost(err) {
		err = ErrLeaseLost
	} else {
		run.log.Error("cannot join the run; the server will call it lost", "error", err)
	}
	return r.conclude(run, failure, err, begin)
}

// conclude says how a run went.
func (r *Runner) conclude(run *Run, failure *Failure, err error, begin time.Time) Outcome {
	out := Outcome{RunID: run.ID, Reason: Success, Err: err, Took: time.Since(begin), Settled: run.settlement(failure, err)}
	if failure != nil && failure.wants != nil {
		out.Stopped, out.Unable = failure.wants.stopped, failure.wants.unable != nil
	}
	switch {
	case run.settled != Unsettled:
		out.Reason, out.Message = "", run.why
	case failure != nil:
		out.Reason, out.Type, out.Message = failure.Reason, failure.Type, failure.Message
	}
	r.tally.settle(out.Settled)
	if n := run.leftOut.Load(); n > 0 {
		run.log.Warn("lines of the run's log were left out: there was no room for them when its time was over, or it was over already", "lines", n)
	}
	// The message of a job's error is not logged: it may quote the data of the
	// run. It is with the run, at the server.
	attrs := []any{"reason", out.Reason, "took", out.Took.Round(time.Microsecond)}
	if out.Type != "" {
		attrs = append(attrs, "error_type", out.Type)
	}
	if out.Reason == Exception && run.Versions == nil { // before the engine began, so not the job's words; perhaps for the operator to mend
		attrs = append(attrs, "error", firstLine(out.Message))
	}
	log := run.log
	if project := run.Plan.meta().ProjectID; project != "" {
		log = log.With("project_id", cut(project, maxName))
	}
	switch {
	case out.Settled == LeaseLost:
		r.tally.leasesLost.Add(1)
		log.Warn("the run is another worker's now; nothing more is reported of it", "took", out.Took.Round(time.Microsecond))
	case run.settled != Unsettled:
		log.Info("run returned to the queue", "settled", out.Settled, "why", firstLine(run.why), "took", out.Took.Round(time.Microsecond))
	case err == nil:
		log.Info("run complete", attrs...)
	}
	return out
}

// settlement returns what became of a run that is over.
func (r *Run) settlement(failure *Failure, err error) Settlement {
	switch {
	case r.settled != Unsettled:
		return r.settled
	case errors.Is(err, ErrLeaseLost):
		return LeaseLost
	case err != nil:
		return Undelivered
	case failure == nil:
		return Processed
	case failure.wants != nil && !failure.wants.gives():
		return failure.wants.settled
	case failure.Reason == Cancel:
		return Cancelled
	}
	return Processed
}

func firstLine(text string) string {
	const most = 300
	line, _, _ := strings.Cut(text, "\n")
	if len(line) > most {
		line = strings.ToValidUTF8(line[:most], "") + "…"
	}
	return line
}
