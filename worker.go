package phxworker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/phxworker/phxworker/channel"
	"github.com/phxworker/phxworker/channel/extension"
	"github.com/phxworker/phxworker/claim"
	"github.com/phxworker/phxworker/slots"
)

// Worker claims runs and executes them. Its methods may be called concurrently.
type Worker struct {
	cfg      Config
	id       string // the worker_id of its tokens
	groups   []slots.Group
	verifier *claim.Verifier
	// extensions are those that are offered to the server.
	extensions *extension.Set
	log        *slog.Logger
	pools      []*slots.Pool // one a group
	tally      tally

	budget *budget
	feed   feed

	drain     chan struct{} // closed by Drain
	drainOnce sync.Once
	abort     chan struct{} // closed by Abort
	abortOnce sync.Once

	mu    sync.Mutex
	phase Phase
	shift *shift // nil before Run
}

// shift is what a worker has while it runs. Its fields do not change.
type shift struct {
	intake    context.Context // ends when no more is claimed
	socket    *channel.Socket
	sockets   *sockets
	queue     *queue
	turnstile *turnstile
	starter   *starter
	loops     []*claim.Loop // one a group
}

// New returns a worker that has not begun. The error says what is wrong with
// the configuration.
func New(cfg Config) (*Worker, error) {
	cfg, groups, err := cfg.complete()
	if err != nil {
		return nil, fmt.Errorf("phxworker: %w", err)
	}
	w := &Worker{
		cfg: cfg, id: uuid.NewString(), groups: groups, log: cfg.Logger,
		budget: newBudget(cfg.MaxErrors), drain: make(chan struct{}), abort: make(chan struct{}),
	}
	if cfg.PublicKey != "" {
		if w.verifier, err = claim.NewVerifier(cfg.PublicKey); err != nil {
			return nil, fmt.Errorf("phxworker: %w", err)
		}
	}
	if w.extensions, err = cfg.newExtensions(); err != nil {
		return nil, fmt.Errorf("phxworker: %w", err)
	}
	for _, group := range groups {
		w.pools = append(w.pools, slots.NewPool(group))
	}
	return w, nil
}

// Groups returns the worker's slot groups, as [Config.Groups] writes them.
func (w *Worker) Groups() string { return slots.Format(w.groups) }

// ErrAborted says that runs were cut short, before they had ended or before the server had
// been told how: by [Worker.Abort], or because [Config.Grace] had passed. Those that had not
// ended were reported as cancelled, or given back.
var ErrAborted = errors.New("runs were cut short, before they had ended or the server knew of it")

// errStopped is the cause of an expected end.
var errStopped = errors.New("the worker was stopped")

// Abort stops the runs under way, and the worker with them; what is left to be
// reported has 15 s. It is the second stage of a stop, for when the first, the
// end of the context of [Worker.Run], takes too long. It does not wait, and may
// be called at any time.
func (w *Worker) Abort() { w.abortOnce.Do(func() { close(w.abort) }) }

// Run connects, claims and executes until ctx ends, then stops as the package
// comment says and returns nil, or [ErrAborted]. A server that cannot be
// reached is tried again for ever, unless [Config.MaxErrors] ends that with
// [ErrTooManyErrors]. An engine that is a [runner.Checker] is asked before the first claim:
// what it says that does not pass (a folder that cannot be written) ends Run with
// [ErrUnable]. Any other error is that Run cannot begin. It can be
// called once.
func (w *Worker) Run(ctx context.Context) error {
	socket, err := w.open()
	if err != nil {
		return err
	}
	defer socket.Close()

	// intake ends first: no new work. work ends when the runs have had their
	// time; what still runs is stopped then, and report is the time for telling
	// the server, of claims in flight as well: it may have given a run away.
	intake, stopIntake := context.WithCancelCause(ctx)
	defer stopIntake(errStopped)
	work, stopWork := context.WithCancelCause(context.WithoutCancel(ctx))
	defer stopWork(errStopped)
	report, stopReport := lingering(work, reportGrace)
	defer stopReport()

	further := newSockets(socket, w.dial, w.log)
	defer further.close()
	queue := newQueue(w, socket, intake)
	turnstile := newTurnstile(w, queue)
	runs := newStarter(w, further, queue, turnstile, work, report)
	loops := w.loops(turnstile, runs)
	queue.loops = loops
	w.begin(&shift{intake: intake, socket: socket, sockets: further, queue: queue, turnstile: turnstile, starter: runs, loops: loops})
	defer w.end()

	var stages, onQueue, claiming sync.WaitGroup
	stages.Go(func() {
		select {
		case <-w.budget.spent:
			stopIntake(ErrTooManyErrors)
		case <-w.abort:
			stopIntake(errStopped)
		case <-w.drain:
			stopIntake(errStopped)
		case <-intake.Done():
		}
		w.moveTo(PhaseDraining)
		w.feed.publish(Event{Kind: EventDraining})
		w.limitGrace(work, stopWork)
	})
	stages.Go(func() { w.follow(work, socket) })
	stages.Go(func() { w.watch(intake, turnstile, loops) })
	stages.Go(func() {
		if err := turnstile.checkFirst(intake); err != nil {
			stopIntake(fmt.Errorf("%w: %w", ErrUnable, err))
		}
	})
	stages.Go(func() { turnstile.mend(intake, &turnstile.key) })
	// The queue is left last: a claim in flight needs it.
	stay, leave := context.WithCancelCause(context.WithoutCancel(ctx))
	onQueue.Go(func() { queue.run(stay) })
	onQueue.Go(func() { turnstile.mend(stay, &turnstile.engine) }) // runs may wait for it while the worker drains
	onQueue.Go(func() { queue.reportStatus(stay, w.status) })
	onQueue.Go(func() { w.watchIdle(intake, runs) })
	for _, loop := range loops {
		claiming.Go(func() {
			if err := loop.Run(intake, report); err != nil {
				w.log.Error("a claim loop ended", "error", err)
			}
		})
	}
	claiming.Wait()
	runs.wait()
	leave(errStopped)
	onQueue.Wait()
	stopWork(errStopped)
	stages.Wait()
	stopped := runs.stopped.Load()
	w.log.Info("stopped", "aborted", stopped)
	switch cause := context.Cause(intake); {
	case errors.Is(cause, ErrTooManyErrors), errors.Is(cause, ErrUnable):
		return fmt.Errorf("phxworker: %w", cause)
	case stopped > 0:
		return fmt.Errorf("phxworker: %w: %d", ErrAborted, stopped)
	}
	return nil
}

// limitGrace ends work a while after the intake ended, or when the worker is
// aborted.
func (w *Worker) limitGrace(work context.Context, stopWork context.CancelCauseFunc) {
	w.log.Info("stopping: no more claims, waiting for the runs to finish", "running", w.running(), "unanswered_claims", w.claimed(), "grace", w.cfg.Grace)
	grace := time.NewTimer(w.cfg.Grace)
	defer grace.Stop()
	select {
	case <-work.Done():
		return
	case <-grace.C:
	case <-w.abort:
	}
	// With their ids: should the process end now, this is what is known of them.
	w.log.Warn("stopping the runs under way", "running", w.running(), "run_ids", w.status().Runs)
	w.moveTo(PhaseStopping)
	stopWork(errStopped)
}

// reportGrace is how long the server may take to hear how the runs ended that a
// worker stopped, and to answer a claim that was put before.
const reportGrace = 15 * time.Second

// lingering returns a context that ends a grace period after parent does.
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

func (w *Worker) open() (*channel.Socket, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.phase != PhaseNew {
		return nil, errors.New("phxworker: Run was called before; make a new Worker")
	}
	socket, err := w.dial()
	if err != nil {
		return nil, fmt.Errorf("phxworker: %w", err)
	}
	w.phase = PhaseRunning
	return socket, nil
}

// readLimits are for what is smaller than a run's input, and many times as large as it ever is: a
// server, or who is in its place, is not to fill the memory. The largest plan is
// 11,000,000 bytes; more is read to say so.
var readLimits = map[string]int64{
	"fetch:dataclip": math.MaxInt64, "fetch:plan": 12 << 20, "claim": 8 << 20, "fetch:credential": 2 << 20, "": 1 << 20,
}

// dial opens a socket to the server.
func (w *Worker) dial() (*channel.Socket, error) {
	return channel.Open(channel.Config{
		URL:       w.cfg.URL,
		Params:    socketParams(w.cfg.Secret, w.id, w.cfg.Version),
		ReadLimit: w.cfg.ReadLimit, ReadLimits: readLimits,
		TLS: w.cfg.TLS, Proxy: w.cfg.Proxy, NetDial: w.cfg.NetDial,
		Logger: w.log,
	})
}

func (w *Worker) loops(turnstile *turnstile, starter *starter) []*claim.Loop {
	var prefetcher claim.Prefetcher
	if w.cfg.Prefetch {
		prefetcher = starter
	}
	loops := make([]*claim.Loop, len(w.pools))
	for i, pool := range w.pools {
		var gate func(context.Context) error
		if w.cfg.Gate != nil {
			gate = func(ctx context.Context) error { return w.cfg.Gate(ctx, pool.Group().Name) }
		}
		loops[i] = claim.NewLoop(claim.Config{
			Pool: pool, Claimer: &door{turnstile, pool.Group().Name}, Starter: starter, GiveBack: starter.giveBack, Refused: func(run claim.Run, err error) { starter.refused(pool.Group().Name, run, err) }, Prefetcher: prefetcher,
			WorkerName: w.cfg.Name, Verifier: w.verifier, DemandAll: w.cfg.DemandAll,
			MinBackoff: w.cfg.MinBackoff, MaxBackoff: w.cfg.MaxBackoff,
			Gate: gate, Paused: w.cfg.Manual, Logger: w.log,
		})
	}
	return loops
}
