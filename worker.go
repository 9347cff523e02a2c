package phxworker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
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
	verifier *claim.Verifier
	// extensions are those that are offered to the server.
	extensions *extension.Set
	log        *slog.Logger
	pools      []*slots.Pool // one a group
	tally      tally

	budget *budget
	feed   feed

	drain, abort *signal
	over         *signal // raised when Run returns
	ended        error   // what it returns; set when over is raised

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
	cfg, err := cfg.complete()
	if err != nil {
		return nil, fmt.Errorf("phxworker: %w", err)
	}
	w := &Worker{
		cfg: cfg, id: uuid.NewString(), phase: PhaseNew, log: cfg.Logger,
		tally:  tally{ended: make(map[Reason]int)},
		budget: newBudget(cfg.MaxErrors), drain: newSignal(), abort: newSignal(), over: newSignal(),
	}
	if cfg.PublicKey != "" {
		if w.verifier, err = claim.NewVerifier(cfg.PublicKey); err != nil {
			return nil, fmt.Errorf("phxworker: %w", err)
		}
	}
	if w.extensions, err = cfg.newExtensions(); err != nil {
		return nil, fmt.Errorf("phxworker: %w", err)
	}
	for _, group := range cfg.Groups {
		w.pools = append(w.pools, slots.NewPool(group))
	}
	return w, nil
}

// Groups returns the worker's slot groups as it began with them.
func (w *Worker) Groups() []slots.Group { return slices.Clone(w.cfg.Groups) }

// ErrAborted says that runs were cut short, before they had ended or before the server had
// been told how: by [Worker.Abort], or because [Config.Grace] had passed. Those that had not
// ended were reported as cancelled, or returned.
var ErrAborted = errors.New("runs were cut short, before they had ended or the server knew of it")

// errStopped is the cause of an expected end.
var errStopped = errors.New("the worker was stopped")

// Abort stops the runs under way, and the worker with them; what is left to be
// reported has 15 s. It is the second stage of a stop, for when the first, the
// end of the context of [Worker.Run], takes too long. It does not wait, and may
// be called at any time.
func (w *Worker) Abort() { w.abort.raise() }

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
	defer w.over.raise()
	defer socket.Close()
	w.ended = w.run(ctx, socket)
	return w.ended
}

// Stop stops the worker: it claims no more, and its runs finish. Those that are still under
// way when ctx ends are stopped, as by [Worker.Abort]. Stop waits until Run has
// returned, and returns the same: nil, or [ErrAborted] if runs were cut short. The error is
// [ErrNotRunning] before Run was called. An engine or a hook, for which Run waits, must not
// call it: [Worker.Drain] is for these.
func (w *Worker) Stop(ctx context.Context) error {
	w.mu.Lock()
	begun := w.phase != PhaseNew
	w.mu.Unlock()
	if !begun {
		return ErrNotRunning
	}
	w.Drain()
	defer context.AfterFunc(ctx, w.Abort)()
	<-w.over.raised
	return w.ended
}

// run does what Run says, with the worker's first socket.
func (w *Worker) run(ctx context.Context, socket *channel.Socket) error {
	// intake ends first: no new work. work ends when the runs have had their
	// time; what still runs is stopped then, and report is the time for telling
	// the server, of claims in flight as well: it may have given a run away.
	intake, stopIntake := context.WithCancelCause(ctx)
	defer stopIntake(errStopped)
	work, stopWork := context.WithCancelCause(context.WithoutCancel(ctx))
	defer stopWork(errStopped)
	report, stopReport := context.WithCancelCause(context.WithoutCancel(ctx))
	defer stopReport(errStopped)
	defer context.AfterFunc(work, func() {
		time.AfterFunc(reportGrace, func() { stopReport(context.Cause(work)) })
	})()

	further := newSockets(socket, w.dial, w.log)
	defer further.close()
	queue, err := newQueue(w, socket)
	if err != nil {
		return fmt.Errorf("phxworker: %w", err)
	}
	turnstile := newTurnstile(w)
	runs := newStarter(w, further, queue, turnstile, intake, work, report)
	loops := w.loops(queue, turnstile, runs)
	wake := func() {
		for _, loop := range loops {
			loop.Wake()
		}
	}
	w.mu.Lock()
	w.shift = &shift{intake: intake, socket: socket, sockets: further, queue: queue, turnstile: turnstile, starter: runs, loops: loops}
	w.mu.Unlock()
	defer w.feed.end()
	defer w.moveTo(PhaseStopped)

	var stages, onQueue, claiming sync.WaitGroup
	stages.Go(func() {
		select {
		case <-w.budget.spent.raised:
			stopIntake(ErrTooManyErrors)
		case <-w.abort.raised:
			stopIntake(errStopped)
		case <-w.drain.raised:
			stopIntake(errStopped)
		case <-intake.Done():
		}
		w.moveTo(PhaseDraining)
		w.feed.publish(Event{Kind: EventDraining})
		w.limitGrace(work, stopWork)
	})
	stages.Go(func() { w.follow(work, socket) })
	stages.Go(func() {
		if err := turnstile.checkFirst(intake); err != nil {
			stopIntake(fmt.Errorf("%w: %w", ErrUnable, err))
		}
	})
	// The queue is left last: a claim in flight needs it.
	stay, leave := context.WithCancelCause(context.WithoutCancel(ctx))
	onQueue.Go(func() { queue.listen(stay, wake) })
	onQueue.Go(func() { turnstile.mend(stay) }) // runs may wait for the engine while the worker drains
	onQueue.Go(func() { queue.reportStatus(stay, w.status, intake.Done()) })
	onQueue.Go(func() { w.watchIdle(intake, runs) })
	for _, loop := range loops {
		claiming.Go(func() { loop.Run(intake, report) })
	}
	claiming.Wait()
	runs.done.Wait()
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

// loops returns one claim loop for each group.
func (w *Worker) loops(queue *queue, turnstile *turnstile, starter *starter) []*claim.Loop {
	loops := make([]*claim.Loop, len(w.pools))
	for i, pool := range w.pools {
		loops[i] = claim.NewLoop(claim.Config{
			Options: w.cfg.Claim, Pool: pool, Claimer: &claims{queue, turnstile, pool.Group().Name}, Starter: starter,
			WorkerName: w.cfg.Name, Verifier: w.verifier, Refused: starter.refuseToken, Gate: w.cfg.Hooks.Gate,
			Return: starter.returnUnbegun, Logger: w.log,
		})
	}
	return loops
}

// Phase is how far a worker is in its life, which goes one way only.
type Phase string

// The phases of a worker, in their order.
const (
	PhaseNew      Phase = "new"      // [Worker.Run] was not called yet
	PhaseRunning  Phase = "running"  // it claims
	PhaseDraining Phase = "draining" // it claims no more; its runs finish
	PhaseStopping Phase = "stopping" // its runs are cancelled; what is left is reported
	PhaseStopped  Phase = "stopped"  // Run is about to return, or has
)

func (w *Worker) moveTo(phase Phase) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.phase = phase
}

// current returns what runs; nil before Run and after.
func (w *Worker) current() *shift {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.phase == PhaseStopped {
		return nil
	}
	return w.shift
}

// errReplaced is what is known of a connection whose end passed unseen.
var errReplaced = errors.New("the connection was lost, and another was made at once")

// follow publishes how the connection fares until ctx ends.
func (w *Worker) follow(ctx context.Context, socket *channel.Socket) {
	var last channel.Status
	for {
		status, changed := socket.Status()
		switch {
		case status.State == channel.Connected && status.Connections != last.Connections:
			if last.State == channel.Connected {
				w.feed.publish(Event{Kind: EventLost, Err: errReplaced})
			}
			w.feed.publish(Event{Kind: EventConnected})
		case status.State == channel.Connecting && status.Err != nil && (last.State == channel.Connected || last.Err == nil):
			w.feed.publish(Event{Kind: EventLost, Err: status.Err})
		}
		last = status
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// watchIdle stops the worker once it has had no run for as long as the
// configuration allows.
func (w *Worker) watchIdle(ctx context.Context, runs *starter) {
	if w.cfg.IdleTimeout <= 0 {
		return
	}
	timer := time.NewTimer(w.cfg.IdleTimeout)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-ctx.Done():
			return
		}
		left := w.cfg.IdleTimeout
		if running, _ := w.inUse(); running == 0 {
			left -= time.Since(*runs.lastRun.Load())
		}
		if left <= 0 {
			w.log.Info("stopping: there was no run for too long", "idle_timeout", w.cfg.IdleTimeout)
			w.Drain()
			return
		}
		timer.Reset(left)
	}
}

// limitGrace ends work a while after the intake ended, or when the worker is
// aborted.
func (w *Worker) limitGrace(work context.Context, stopWork context.CancelCauseFunc) {
	running, claimed := w.inUse()
	w.log.Info("stopping: no more claims, waiting for the runs to finish", "running", running, "unanswered_claims", claimed, "grace", w.cfg.Grace)
	grace := time.NewTimer(w.cfg.Grace)
	defer grace.Stop()
	select {
	case <-work.Done():
		return
	case <-grace.C:
	case <-w.abort.raised:
	}
	// With their ids: should the process end now, this is what is known of them.
	running, _ = w.inUse()
	w.log.Warn("stopping the runs under way", "running", running, "run_ids", w.status().Runs)
	w.moveTo(PhaseStopping)
	stopWork(errStopped)
}

// reportGrace is how long the server may take to hear how the runs ended that a
// worker stopped, and to answer a claim that was put before.
const reportGrace = 15 * time.Second
