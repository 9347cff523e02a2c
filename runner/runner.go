// Package runner takes one claimed run from the join of its topic to its run:complete.
//
// [Runner.Run] joins run:<id>, fetches the plan, the input dataclip and the credentials, hands them to an [Engine] as
// a [Run], executes what that has prepared (an [Execution]), and reports to the server what it does: run:start,
// step:start, run:log, step:complete, run:complete, then it leaves. The engine decides what happens; the runner owns
// how it is told.
//
// # Rooms
//
// In this package are the API of engines and the execution of a run. Two others are below it, and know neither it nor
// each other: [delivery] tells the server what the engine does, and its package comment says what is promised of that;
// [terms] is what was agreed on with the server beyond the protocol. The lease of a run, which is one of the terms,
// plugs into its [delivery.Outbox] as the [delivery.Permit].
//
// # What is not promised
//
// An engine that ignores its context cannot be stopped from outside. The run ends without it after
// [Config.EngineGrace], and says so in the log.
package runner

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/phxworker/phxworker/channel"
	"github.com/phxworker/phxworker/channel/extension"
	"github.com/phxworker/phxworker/claim"
	"github.com/phxworker/phxworker/runner/delivery"
	"github.com/phxworker/phxworker/runner/terms"
)

// Config is what a [Runner] needs. The zero values of all but Engine are the defaults.
type Config struct {
	Engine   Engine
	Limits   Limits // the worker's own
	Delivery delivery.Config
	// Version is the worker's, as run:start tells it. Defaults to "dev".
	Version string
	// EngineGrace is how long an engine has to return after its context ended. Defaults to 5 s.
	EngineGrace time.Duration
	// Middleware is around the execution of every run, the first outermost.
	Middleware []Middleware
	// Accept decides which runs are executed here. Defaults to all.
	Accept AcceptFunc
	// RefuseUnsuitable ends a run that Accept returns as an exception when the server takes no runs back. By
	// default it is executed then.
	RefuseUnsuitable bool
	// MaxAttempts is how often a run may be tried, where the server counts. Defaults to 3; negative: as often as
	// it likes.
	MaxAttempts int
	// Releaser returns runs. Defaults to none: they are reported as exceptions.
	Releaser terms.Releaser
	// Extensions are what is offered to the server. Defaults to none.
	Extensions *extension.Set
	// Logger defaults to one that discards.
	Logger *slog.Logger
}

func (c Config) withDefaults() Config {
	c.Limits = c.Limits.WithDefaults()
	c.Version = cmp.Or(c.Version, "dev")
	c.MaxAttempts = cmp.Or(c.MaxAttempts, 3)
	c.EngineGrace = cmp.Or(c.EngineGrace, 5*time.Second)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// Runner takes claimed runs to their end. It keeps nothing between runs but numbers, and its methods may be called
// concurrently.
type Runner struct {
	cfg      Config
	delivery *delivery.Delivery
	terms    *terms.Terms
	plans    *semaphore.Weighted // the memory for large plans, in bytes

	mu     sync.Mutex
	active map[string]*Run // those under way, by id
	stats  Stats           // those of delivery and terms left out
}

// New returns a Runner.
func New(cfg Config) *Runner {
	cfg = cfg.withDefaults()
	return &Runner{
		cfg: cfg, delivery: delivery.New(cfg.Delivery, cfg.Logger), terms: terms.New(cfg.Extensions, cfg.Releaser),
		active: make(map[string]*Run), stats: Stats{Settled: make(map[Settlement]uint64)}, plans: semaphore.NewWeighted(maxPlan),
	}
}

// Outcome is how a run went.
type Outcome struct {
	RunID string `json:"id"`
	// Name is that of its workflow; empty if it has none, or its plan never came.
	Name  string `json:"name,omitempty"`
	Group string `json:"group"`
	// Claimed, Started and Ended are when; Started is zero for a run that its engine never began to execute.
	Claimed time.Time `json:"claimed"`
	Started time.Time `json:"started,omitzero"`
	Ended   time.Time `json:"ended"`
	// Reason is what run:complete said, or would have said; empty when the run ended
	// elsewhere: it was returned, or is another worker's.
	Reason Reason `json:"reason"`
	// Type and Message are empty after a success. Of a run that was returned, the
	// message says why. It is in no JSON, for it may quote data of the run.
	Type    string `json:"error_type,omitempty"`
	Message string `json:"-"`
	// Err is set when the server was not told: why it could not be.
	Err error `json:"-"`
	// Settled is what became of the run in the server's queue.
	Settled Settlement `json:"settled"`
	// Joined is set when the server let the worker onto the run's topic.
	Joined bool `json:"-"`
	// Refused is set when the server did not let the worker onto the run's topic, or takes its end in no form.
	Refused bool `json:"-"`
	// Stopped is set when the run was ended, or returned, because work had ended.
	Stopped bool `json:"-"`
	// Unable is set when it was this worker that could not execute the run; see [Unable].
	Unable bool `json:"-"`
}

// Joiner joins topics; a [*channel.Socket] does.
type Joiner interface {
	Join(ctx context.Context, name string, payload any) (*channel.Topic, error)
}

var _ Joiner = (*channel.Socket)(nil)

// Run executes a claimed run, and returns when the server has been told how it ended, or when it cannot be.
//
// When work ends, the engine is stopped and the run is reported as a Cancel; so is one whose work has ended before it
// began. What the server is told, it is told under report, which must outlast work by as long as that may take.
//
// A run whose id is that of one under way is not executed: the error of its outcome is [ErrTwice]. Without a host (nil),
// a run that the engine is not able to prepare ends at once.
func (r *Runner) Run(work, report context.Context, socket Joiner, given claim.Run, host Host) Outcome {
	work, cancelWork := context.WithCancelCause(work)
	defer cancelWork(nil)
	if host == nil {
		host = noHost{}
	}
	run, other := r.enlist(given, host, cancelWork)
	if other != nil {
		return r.refuseTwice(work, report, given, other)
	}
	defer r.dismiss(run)
	host.Joining()
	topic, err := socket.Join(report, "run:"+run.ID, r.terms.JoinPayload(given.Token))
	if err != nil {
		failure := &Failure{Reason: Exception, Type: "JoinError", Message: err.Error()}
		if lost := run.lease.Withdrawn(err); lost != nil {
			return r.conclude(run, failure, lost)
		}
		if work.Err() != nil { // meanwhile
			failure = failureOf(work, context.Cause(work))
		}
		failure = run.complete(Result{}, failure)
		run.outbox.GiveUp(err)
		out := r.conclude(run, failure, err)
		out.Refused = report.Err() == nil && errors.As(err, new(*channel.RefusedError))
		return out
	}
	run.log.Debug("run joined")

	failure, err := r.attend(work, report, topic, run)
	// The run is over; a topic that stays behind is no fault of it.
	if err := topic.Leave(report); err != nil {
		run.log.Debug("cannot leave the topic of a run", "error", err)
	}
	out := r.conclude(run, failure, err)
	out.Joined, out.Refused = true, errors.Is(err, delivery.ErrEndRefused)
	return out
}

var (
	// ErrTwice says that a run is under way already in this worker.
	ErrTwice = errors.New("the run is under way already in this worker")
	// ErrNoRun says that a run is not under way in this worker.
	ErrNoRun = errors.New("no such run is under way in this worker")
	// ErrReporting says that a run can no longer be cancelled.
	ErrReporting = errors.New("the run has ended, and is being reported or returned to the queue")
)

// refuseTwice says what became of a run that is under way already. The server has taken that one from the worker, which
// has not noticed yet, and another worker may have this one; unless it is the very run that is executed.
func (r *Runner) refuseTwice(work, report context.Context, given claim.Run, other *Run) Outcome {
	out := Outcome{RunID: given.ID, Err: ErrTwice, Settled: Unsettled}
	if given.Token != other.given.Token && r.Return(work, report, given, terms.ReleasePostpone, requeueDelay) {
		out.Settled = Returned
	}
	return out
}

// enlist makes the record of a run that begins now, or returns the other one of its id that is under way.
func (r *Runner) enlist(given claim.Run, host Host, cancelWork context.CancelCauseFunc) (run, other *Run) {
	now := time.Now()
	if given.Claimed.IsZero() {
		given.Claimed = now
	}
	run = &Run{
		ID: given.ID, Plan: &Plan{ID: given.ID}, Attempt: given.Attempt,
		log: r.logOf(given), given: given, host: host, cancelWork: cancelWork, lease: terms.NewLease(given), count: r.count, plans: r.plans,
		phase: Joining, since: now, noticing: make(chan struct{}, 1), able: func() {},
	}
	run.outbox = r.delivery.Open(given, run.lease, run.log)
	run.limit(r.cfg.Limits)
	r.mu.Lock()
	defer r.mu.Unlock()
	if other = r.active[run.ID]; other != nil {
		return nil, other
	}
	r.active[run.ID] = run
	return run, nil
}

func (r *Runner) logOf(run claim.Run) *slog.Logger {
	labels := []slog.Attr{slog.String("run_id", run.ID)}
	if run.Group != "" {
		labels = append(labels, slog.String("group", run.Group))
	}
	return slog.New(r.cfg.Logger.Handler().WithAttrs(labels))
}

func (r *Runner) dismiss(run *Run) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.active, run.ID)
}

func (r *Runner) underWay(id string) *Run {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.active[id]
}

// Cancel ends the work on a run, which is reported with the cause, and does not wait for that. The error is
// [ErrNoRun] or [ErrReporting].
func (r *Runner) Cancel(runID string, cause error) error {
	run := r.underWay(runID)
	if run == nil {
		return ErrNoRun
	}
	run.mu.Lock()
	over := run.phase == Reporting
	if !over {
		run.cancelWork(cause)
	}
	run.mu.Unlock() // before the log, which may look at the run
	if over {
		return ErrReporting
	}
	run.log.Info("cancelling a run on request")
	return nil
}

func (r *Runner) conclude(run *Run, failure *Failure, err error) Outcome {
	out := Outcome{
		RunID: run.ID, Name: delivery.Short(run.Plan.Name), Group: run.given.Group, Claimed: run.given.Claimed, Started: run.started, Ended: time.Now(),
		Reason: Success, Err: err, Settled: run.settlement(failure, err),
	}
	if failure != nil {
		out.Stopped, out.Unable = failure.stopped, failure.unable
	}
	switch {
	case run.returned != nil:
		out.Reason, out.Message = "", run.returned.why
	case out.Settled == LeaseLost:
		out.Reason = ""
	case failure != nil:
		out.Reason, out.Type, out.Message = failure.Reason, failure.Type, failure.Message
	}
	r.count(func(s *Stats) { s.Settled[out.Settled]++ })
	if n := run.outbox.LeftOut(); n > 0 {
		run.log.Warn("lines of the run's log were left out: there was no room for them when its time was over, or it was over already", "lines", n)
	}
	// The message of a job's error is not logged: it may quote the data of the run. It is with the run, at the
	// server.
	took := out.Ended.Sub(out.Claimed).Round(time.Microsecond)
	attrs := []any{"reason", out.Reason, "took", took}
	if out.Type != "" {
		attrs = append(attrs, "error_type", out.Type)
	}
	if out.Reason == Exception && run.Versions == nil { // before the engine began, so not the job's words; perhaps for the operator to mend
		attrs = append(attrs, "error", firstLine(out.Message))
	}
	log := run.log
	if project := run.Plan.meta().ProjectID; project != "" {
		log = log.With("project_id", delivery.Short(project))
	}
	switch {
	case out.Settled == LeaseLost:
		log.Warn("the run is another worker's now; nothing more is reported of it", "took", took)
	case out.Settled.InQueue():
		log.Info("run returned to the queue", "settled", out.Settled, "why", firstLine(out.Message), "took", took)
	case err == nil:
		log.Info("run complete", attrs...)
	}
	return out
}

func (r *Run) settlement(failure *Failure, err error) Settlement {
	switch {
	case r.returned != nil:
		return r.returned.settled
	case errors.Is(err, terms.ErrLeaseLost):
		return LeaseLost
	case err != nil:
		return Undelivered
	case failure == nil:
		return Processed
	case failure.settled != "" && !failure.returns():
		return failure.settled
	case failure.Reason == Cancel:
		return Cancelled
	}
	return Processed
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return delivery.Cut(line, 300, "…")
}

// Stats is what a [Runner] has done since it was made.
type Stats struct {
	delivery.Stats

	// Panics counts the engine's, and the worker's own while it takes a run to its end.
	Panics uint64 `json:"engine_panics"`
	// Stuck counts the calls of the engine that did not end when their run did;
	// StuckNow are those of them that still have not.
	Stuck    uint64 `json:"engines_stuck"`
	StuckNow int64  `json:"engines_stuck_now"`
	// Renewed counts leases that were renewed, and LeasesLost those that were lost.
	Renewed    uint64 `json:"leases_renewed"`
	LeasesLost uint64 `json:"leases_lost"`
	// Unknown counts pushes of the server that mean nothing here.
	Unknown uint64 `json:"unknown_pushes"`
	// Settled counts the runs that are over, by what became of them.
	Settled map[Settlement]uint64 `json:"settled"`
}

func (r *Runner) count(change func(s *Stats)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change(&r.stats)
}

// Stats returns the numbers so far. It may be called at any time.
func (r *Runner) Stats() Stats {
	r.mu.Lock()
	stats := r.stats
	stats.Settled = maps.Clone(stats.Settled)
	r.mu.Unlock()
	stats.Stats, stats.LeasesLost = r.delivery.Stats(), stats.Settled[LeaseLost]
	stats.Renewed, stats.Unknown = r.terms.Renewed.Load(), r.terms.Unknown.Load()
	return stats
}

// Phase is how far a run has come.
type Phase string

// The phases of a run, in their order.
const (
	Joining   Phase = "joining"   // waits for the server to let it onto its topic
	Loading   Phase = "loading"   // fetches plan, dataclip and credentials
	Preparing Phase = "preparing" // the engine gets what it needs, such as adaptors
	Executing Phase = "executing"
	Reporting Phase = "reporting" // over for the engine; the server is still to be told
)

// Progress is one run under way.
type Progress struct {
	RunID string `json:"id"`
	// Name is that of its workflow; empty if it has none, or none is known yet.
	Name  string    `json:"name,omitempty"`
	Group string    `json:"group"`
	Phase Phase     `json:"phase"`
	Since time.Time `json:"phase_since"` // when the phase began
	// Job is the id of the job that is executed, of several the one that began last; empty between steps.
	Job string `json:"job,omitempty"`
	// JobName is the name of that job; empty if it has none.
	JobName string `json:"job_name,omitempty"`
	// Unacknowledged is how many events the server has not answered yet.
	Unacknowledged int `json:"unacknowledged"`
	// Claimed is when the server gave it, and Started when the engine began to execute it, zero before.
	Claimed time.Time `json:"claimed"`
	Started time.Time `json:"started,omitzero"`
}

func (r *Run) enter(phase Phase) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.phase, r.since = phase, time.Now()
	if phase == Executing {
		r.started = r.since
	}
}

func (r *Run) progress() Progress {
	p := Progress{RunID: r.ID, Group: r.given.Group, Claimed: r.given.Claimed, Unacknowledged: r.outbox.Waiting()}
	r.mu.Lock()
	defer r.mu.Unlock()
	p.Phase, p.Since, p.Started = r.phase, r.since, r.started
	if r.phase == Joining || r.phase == Loading { // it is being written
		return p
	}
	p.Name = delivery.Short(r.Plan.Name)
	if n := len(r.open); n > 0 {
		p.Job = r.open[n-1].jobID
		if i := slices.IndexFunc(r.Plan.Jobs, func(j Job) bool { return j.ID == p.Job }); i >= 0 {
			p.JobName = delivery.Short(r.Plan.Jobs[i].Name)
		}
	}
	return p
}

// Active returns the runs under way, the oldest first.
func (r *Runner) Active() []Progress {
	r.mu.Lock()
	active := slices.Collect(maps.Values(r.active))
	r.mu.Unlock()
	list := make([]Progress, len(active))
	for i, run := range active {
		list[i] = run.progress()
	}
	slices.SortFunc(list, func(a, b Progress) int {
		return cmp.Or(a.Claimed.Compare(b.Claimed), cmp.Compare(a.RunID, b.RunID))
	})
	return list
}
