package runner

import (
	"context"
	"log/slog"
	"time"

	"github.com/phxworker/phxworker/channel"
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
	// MessageTimeout is how long an event may go unanswered before the log
	// says so. Defaults to 30 s.
	MessageTimeout time.Duration
	// OutboxBytes bounds the events of one run that the server has not
	// acknowledged yet. Defaults to 16 MiB.
	OutboxBytes int
	// EngineGrace is how long an engine has to return after its context
	// ended. Defaults to 5 s.
	EngineGrace time.Duration
	// ReportGrace is how long the last events may take after the context of
	// [Runner.Run] ended. Defaults to 15 s.
	ReportGrace time.Duration
	// LogsAtMostOnce sends no log line again of which nobody knows whether it
	// arrived. By default each arrives at least once, and Lightning stores one
	// that comes twice twice.
	LogsAtMostOnce bool
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
	if c.EngineGrace == 0 {
		c.EngineGrace = 5 * time.Second
	}
	if c.ReportGrace == 0 {
		c.ReportGrace = 15 * time.Second
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// Runner takes claimed runs to their end. It keeps nothing between runs, and
// Run may be called concurrently.
type Runner struct {
	cfg Config
}

// New returns a Runner.
func New(cfg Config) *Runner { return &Runner{cfg: cfg.withDefaults()} }

// Outcome is how a run went.
type Outcome struct {
	RunID string
	// Reason is what run:complete said, or would have said.
	Reason Reason
	// Type and Message are empty after a success.
	Type, Message string
	// Err is set when the server was not told: why it could not be.
	Err error
	// Took is the time from the join of the topic to the end.
	Took time.Duration
}

// Joiner joins topics; a [*channel.Socket] does.
type Joiner interface {
	Join(ctx context.Context, name string, payload any) (*channel.Topic, error)
}

var _ Joiner = (*channel.Socket)(nil)

// Run executes the run with the given id, whose topic the token opens, and
// returns when the server has been told how it ended, or when it cannot be.
//
// When ctx ends, the engine is stopped and the run is reported as a Cancel,
// for which there is [Config.ReportGrace].
func (r *Runner) Run(ctx context.Context, socket Joiner, id, token string) Outcome {
	log := r.cfg.Logger.With("run_id", id)
	begin := time.Now()

	topic, err := socket.Join(ctx, "run:"+id, joinPayload{Token: token})
	if err != nil {
		log.Error("cannot join the run; the server will call it lost", "error", err)
		return Outcome{RunID: id, Reason: Exception, Type: "JoinError", Message: err.Error(), Err: err, Took: time.Since(begin)}
	}
	log.Debug("run joined")
	report, stop := lingering(ctx, r.cfg.ReportGrace)
	defer stop()

	failure, err := r.follow(ctx, report, topic, &Run{
		ID: id, Plan: &Plan{ID: id}, Limits: r.cfg.Limits,
		scrub: &scrubber{}, log: log, token: token, logsAtMostOnce: r.cfg.LogsAtMostOnce,
	})
	// The run is over; a topic that stays behind is no fault of it.
	if err := topic.Leave(report); err != nil {
		log.Debug("cannot leave the topic of a run", "error", err)
	}

	out := Outcome{RunID: id, Reason: Success, Err: err, Took: time.Since(begin)}
	if failure != nil {
		out.Reason, out.Type, out.Message = failure.Reason, failure.Type, failure.Message
	}
	// The message of an error is not logged: it may quote the data of the run.
	// It is with the run, at the server.
	attrs := []any{"reason", out.Reason, "took", out.Took.Round(time.Microsecond)}
	if out.Type != "" {
		attrs = append(attrs, "error_type", out.Type)
	}
	if err == nil {
		log.Info("run complete", attrs...)
	}
	return out
}

type joinPayload struct {
	Token string `json:"token"`
}

// follow takes a joined run to its run:complete. The failure is nil for a
// success; the error is for what could not be reported.
func (r *Runner) follow(ctx, report context.Context, topic *channel.Topic, run *Run) (*Failure, error) {
	working, abandon := context.WithCancelCause(ctx)
	defer abandon(nil)

	run.outbox = newOutbox(topic, run.log, r.cfg.OutboxBytes, r.cfg.MessageTimeout)
	failure := failureOf(working, r.load(working, topic, run))
	if err := topic.Err(); err != nil {
		failure = topicLost(err)
	}

	sent := make(chan error, 1)
	go func() {
		err := run.outbox.run(report)
		if err != nil {
			abandon(topicLost(err)) // an engine that nobody can hear may stop
		}
		sent <- err
	}()
	var result Result
	if failure == nil {
		result, failure = r.carryOut(working, run)
	}
	logEnd(run, failure)
	complete := newRunComplete(run, result, failure)
	run.outbox.force(complete)
	run.outbox.close()
	if err := <-sent; err != nil {
		return failure, r.giveUp(run, err)
	}
	if complete.refusal != nil {
		run.log.Error("the end of the run was refused; the server will call it lost", "error", complete.refusal)
	}
	return failure, complete.refusal
}

// load fetches what the run needs before its engine can begin.
func (r *Runner) load(ctx context.Context, topic *channel.Topic, run *Run) error {
	fetch := fetcher{topic: topic, timeout: r.cfg.MessageTimeout, log: run.log}
	plan, err := fetch.plan(ctx)
	if err != nil {
		return err
	}
	run.Plan = plan
	run.Limits = r.cfg.Limits.override(plan.Options)
	if run.Input, err = fetch.dataclip(ctx, plan.DataclipID); err != nil {
		return err
	}
	if run.credentials, err = fetch.credentials(ctx, plan.Jobs); err != nil {
		return err
	}
	run.scrub = newScrubber(run.credentials)
	run.outbox.rejoined = func(ctx context.Context) { fetch.credentialsAgain(ctx, plan.Jobs) }
	return nil
}

// carryOut lets the engine prepare and execute a run that is loaded, within
// its time.
func (r *Runner) carryOut(ctx context.Context, run *Run) (Result, *Failure) {
	ctx, cancel := context.WithTimeoutCause(ctx, run.Limits.RunTimeout, timeoutFailure(run.Limits.RunTimeout))
	defer cancel()
	run.done = ctx.Done()

	versions, failure := r.prepare(ctx, run)
	if failure != nil {
		return Result{}, failure
	}
	run.Versions = versions
	run.report(&runStart{versions: versions, at: time.Now()}, 0)
	result, failure := r.execute(ctx, run)
	if failure == nil {
		return result, worstLeaf(run)
	}
	run.closeOpen(failure)
	return result, failure
}

// lingering returns a context that ends a grace period after parent does, so
// that the end of a run that was stopped can still be reported.
func lingering(parent context.Context, grace time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(parent))
	stop := context.AfterFunc(parent, func() {
		timer := time.AfterFunc(grace, func() { cancel(context.Cause(parent)) })
		context.AfterFunc(ctx, func() { timer.Stop() })
	})
	return ctx, func() {
		stop()
		cancel(nil)
	}
}
