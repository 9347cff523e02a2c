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
	cfg        Config
	id         string // the worker_id of its tokens
	verifier   *claim.Verifier
	extensions *extension.Set // those that are offered to the server
	log        *slog.Logger
	pools      []*slots.Pool // one a group
	tally      tally
	budget     *budget
	feed       feed

	drain, abort *signal
	returned     *signal // raised when Run returns
	result       error   // of Run; set before returned is raised

	mu    sync.Mutex
	phase Phase
	shift *shift // nil before Run
}

// shift has the parts of a worker that runs. Its fields do not change.
type shift struct {
	intake    context.Context // ends when no more is claimed
	socket    *channel.Socket
	sockets   *sockets
	queue     *queue
	turnstile *turnstile
	starter   *starter
	loops     []*claim.Loop // one a group
}

// New returns a worker that does nothing until [Worker.Run]. The error says what is wrong with the
// configuration.
func New(cfg Config) (*Worker, error) {
	cfg, err := cfg.complete()
	if err != nil {
		return nil, fmt.Errorf("phxworker: %w", err)
	}
	w := &Worker{
		cfg: cfg, id: uuid.NewString(), phase: PhaseNew, log: cfg.Logger,
		tally:  tally{ended: make(map[Reason]int)},
		budget: newBudget(cfg.MaxErrors), drain: newSignal(), abort: newSignal(), returned: newSignal(),
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

// Groups returns the slot groups of the configuration. [Worker.Resize] does not change them.
func (w *Worker) Groups() []slots.Group { return slices.Clone(w.cfg.Groups) }

// ErrAborted says that [Worker.Abort] or the end of [Config.Grace] has cut runs short. Each of them was
// reported as cancelled or returned to the queue, or had ended and could not be reported any more.
var ErrAborted = errors.New("runs were cut short, before they had ended or the server knew of it")

// errStopped is the cause of the contexts that end because the worker stops.
var errStopped = errors.New("the worker was stopped")

// Abort stops the worker and cancels its runs, which then have 15 s to be reported. It is for a stop
// that takes too long. It does not wait, and may be called at any time.
func (w *Worker) Abort() { w.abort.raise() }

// Run connects, claims and executes runs until ctx ends. It then stops as the package comment says, and
// returns nil or [ErrAborted]. It can be called once.
//
// It tries for ever to reach the server, unless [Config.MaxErrors] ends that with [ErrTooManyErrors].
// It asks an engine that is a [runner.Checker] before the first claim. An answer that does not pass by
// itself, as about a folder that cannot be written, ends Run with [ErrUnable]. Any other error says why
// Run could not begin.
func (w *Worker) Run(ctx context.Context) error {
	socket, err := w.open()
	if err != nil {
		return err
	}
	defer w.returned.raise()
	defer socket.Close()
	w.result = w.run(ctx, socket)
	return w.result
}

// Stop drains the worker: it claims no more, and its runs finish. When ctx ends, Stop calls
// [Worker.Abort]. It waits until Run has returned, and returns the same error. Before Run was called,
// the error is [ErrNotRunning]. An engine or a hook must call [Worker.Drain] instead, since Run waits
// for engines and hooks.
func (w *Worker) Stop(ctx context.Context) error {
	w.mu.Lock()
	begun := w.phase != PhaseNew
	w.mu.Unlock()
	if !begun {
		return ErrNotRunning
	}
	w.Drain()
	defer context.AfterFunc(ctx, w.Abort)()
	<-w.returned.raised
	return w.result
}

// run does what Run says, with the worker's first socket.
func (w *Worker) run(ctx context.Context, socket *channel.Socket) error {
	// intake ends first, and with it the claims. work ends when the runs are over or have had their
	// time, and with it the engines. report ends last: under it the server is told how the runs
	// ended, and claims in flight wait, for the server may have given a run away.
	intake, stopIntake := context.WithCancelCause(ctx)
	defer stopIntake(errStopped)
	work, stopWork := context.WithCancelCause(context.WithoutCancel(ctx))
	defer stopWork(errStopped)
	report, stopReport := context.WithCancelCause(context.WithoutCancel(ctx))
	defer stopReport(errStopped)
	defer context.AfterFunc(work, func() {
		time.AfterFunc(reportGrace, func() { stopReport(context.Cause(work)) })
	})()

	sockets := newSockets(socket, w.dial, w.log)
	defer sockets.close()
	queue, err := newQueue(w, socket)
	if err != nil {
		return fmt.Errorf("phxworker: %w", err)
	}
	turnstile := newTurnstile(w)
	starter := newStarter(w, sockets, queue, turnstile, intake, work, report)
	loops := w.newLoops(queue, turnstile, starter)
	wake := func() {
		for _, loop := range loops {
			loop.Wake()
		}
	}
	w.mu.Lock()
	w.shift = &shift{intake: intake, socket: socket, sockets: sockets, queue: queue, turnstile: turnstile, starter: starter, loops: loops}
	w.mu.Unlock()
	defer w.feed.end()
	defer w.moveTo(PhaseStopped)

	var untilStopped, besideRuns, claiming sync.WaitGroup
	untilStopped.Go(func() { w.stopInStages(intake, work, stopIntake, stopWork) })
	untilStopped.Go(func() { w.followConnection(work, socket) })
	untilStopped.Go(func() { w.watchIdle(intake, starter) })
	untilStopped.Go(func() {
		if err := turnstile.checkFirst(intake); err != nil {
			stopIntake(fmt.Errorf("%w: %w", ErrUnable, err))
		}
	})
	// These go on until the last run is over: a claim in flight and the return of a run need the
	// queue, and a run may wait for the engine while the worker drains.
	stay, leave := context.WithCancelCause(context.WithoutCancel(ctx))
	besideRuns.Go(func() { queue.listen(stay, wake) })
	besideRuns.Go(func() { turnstile.runTrials(stay) })
	besideRuns.Go(func() { queue.reportStatus(stay, w.status, intake.Done()) })
	for _, loop := range loops {
		claiming.Go(func() { loop.Run(intake, report) })
	}
	claiming.Wait()
	starter.done.Wait()
	leave(errStopped)
	besideRuns.Wait()
	stopWork(errStopped)
	untilStopped.Wait()
	stopped := starter.stopped.Load()
	w.log.Info("stopped", "aborted", stopped)
	switch cause := context.Cause(intake); {
	case errors.Is(cause, ErrTooManyErrors), errors.Is(cause, ErrUnable):
		return fmt.Errorf("phxworker: %w", cause)
	case stopped > 0:
		return fmt.Errorf("phxworker: %w: %d", ErrAborted, stopped)
	}
	return nil
}

// stopInStages ends the intake when something asks for that. It ends work [Config.Grace] later, or when
// the worker is aborted. It returns at the end of work.
func (w *Worker) stopInStages(intake, work context.Context, stopIntake, stopWork context.CancelCauseFunc) {
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
	// The ids are logged now, for the process may be ended before the runs are.
	running, _ = w.inUse()
	w.log.Warn("stopping the runs under way", "running", running, "run_ids", w.status().Runs)
	w.moveTo(PhaseStopping)
	stopWork(errStopped)
}

// reportGrace is the time, after the end of work, to report the runs that it has cancelled, and to wait
// for the replies to claims in flight.
const reportGrace = 15 * time.Second

// open dials the first socket and begins [PhaseRunning]. Only the first call succeeds.
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

// newLoops returns one claim loop for each group.
func (w *Worker) newLoops(queue *queue, turnstile *turnstile, starter *starter) []*claim.Loop {
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
	PhaseNew      Phase = "new"      // Run was not called yet
	PhaseRunning  Phase = "running"  // it claims
	PhaseDraining Phase = "draining" // it claims no more; its runs finish
	PhaseStopping Phase = "stopping" // its runs are cancelled; what is left is reported
	PhaseStopped  Phase = "stopped"  // Run is about to return, or has returned
)

func (w *Worker) moveTo(phase Phase) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.phase = phase
}

// current returns the parts that run; nil before Run and after it.
func (w *Worker) current() *shift {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.phase == PhaseStopped {
		return nil
	}
	return w.shift
}

// errReplaced is the error of a connection that was lost and replaced between two looks at the socket.
var errReplaced = errors.New("the connection was lost, and another was made at once")

// followConnection publishes each connection that is made or lost, until ctx ends.
func (w *Worker) followConnection(ctx context.Context, socket *channel.Socket) {
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

// watchIdle drains the worker once it has had no run for [Config.IdleTimeout].
func (w *Worker) watchIdle(ctx context.Context, starter *starter) {
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
			left -= time.Since(*starter.lastRun.Load())
		}
		if left <= 0 {
			w.log.Info("stopping: there was no run for too long", "idle_timeout", w.cfg.IdleTimeout)
			w.Drain()
			return
		}
		timer.Reset(left)
	}
}
