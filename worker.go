package phxworker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/phxworker/phxworker/channel"
	"github.com/phxworker/phxworker/claim"
	"github.com/phxworker/phxworker/runner"
	"github.com/phxworker/phxworker/slots"
)

// Worker claims runs and executes them. Its methods may be called concurrently.
type Worker struct {
	cfg      Config
	id       string // the worker_id of its tokens
	groups   []slots.Group
	verifier *claim.Verifier
	log      *slog.Logger
	pools    []*slots.Pool // one a group
	tally    tally

	mu      sync.Mutex
	started bool
	socket  *channel.Socket // nil before Run
}

// New returns a worker that has not begun. The error says what is wrong with
// the configuration.
func New(cfg Config) (*Worker, error) {
	cfg, groups, err := cfg.complete()
	if err != nil {
		return nil, fmt.Errorf("phxworker: %w", err)
	}
	w := &Worker{cfg: cfg, id: uuid.NewString(), groups: groups, log: cfg.Logger}
	if cfg.PublicKey != "" {
		if w.verifier, err = claim.NewVerifier(cfg.PublicKey); err != nil {
			return nil, fmt.Errorf("phxworker: %w", err)
		}
	}
	for _, group := range groups {
		w.pools = append(w.pools, slots.NewPool(group))
	}
	return w, nil
}

// errStopped is the cause of an expected end.
var errStopped = errors.New("the worker was stopped")

// Run connects, claims and executes until ctx ends, then stops as the package
// comment says and returns nil. It returns an error only if it cannot begin; a
// server that cannot be reached is tried again for ever. It can be called once.
func (w *Worker) Run(ctx context.Context) error {
	socket, err := w.open()
	if err != nil {
		return err
	}
	defer socket.Close()

	// intake ends first: no new work. work ends when the runs have had their
	// time; what still runs is stopped and reported then.
	intake := ctx
	work, stopWork := context.WithCancelCause(context.WithoutCancel(ctx))
	defer stopWork(errStopped)
	var graceDone sync.WaitGroup
	graceDone.Go(func() { w.limitGrace(intake, work, stopWork) })

	further := newSockets(socket, w.dial, w.log)
	defer further.close()
	runs := &starter{
		worker: w, work: work, sockets: further,
		runner: runner.New(runner.Config{
			Engine: w.cfg.Engine, Limits: w.cfg.Limits, Version: w.cfg.Version,
			MessageTimeout: w.cfg.MessageTimeout, LogsAtMostOnce: w.cfg.LogsAtMostOnce, Spool: w.cfg.Spool, Logger: w.log,
		}),
	}
	queue := &queue{
		socket: socket, payload: slots.NewJoinPayload(w.groups), claimTimeout: w.cfg.ClaimTimeout,
		log: w.log, intake: intake, changed: make(chan struct{}),
	}
	loops := w.loops(queue, runs)
	queue.wake = func() {
		for _, loop := range loops {
			loop.Wake()
		}
	}

	// The queue is left last: a claim in flight needs it.
	onQueue, leaveQueue := context.WithCancelCause(context.WithoutCancel(ctx))
	var queueDone, loopsDone sync.WaitGroup
	queueDone.Go(func() { queue.run(onQueue) })
	for _, loop := range loops {
		loopsDone.Go(func() {
			if err := loop.Run(intake, work); err != nil {
				w.log.Error("a claim loop ended", "error", err)
			}
		})
	}
	loopsDone.Wait()
	runs.wait()
	leaveQueue(errStopped)
	queueDone.Wait()
	stopWork(errStopped)
	graceDone.Wait()
	w.log.Info("stopped")
	return nil
}

// limitGrace ends work a while after the intake ended.
func (w *Worker) limitGrace(intake, work context.Context, stopWork context.CancelCauseFunc) {
	select {
	case <-intake.Done():
	case <-work.Done():
		return
	}
	w.log.Info("stopping: no more claims, waiting for the runs to finish", "running", w.running(), "grace", w.cfg.Grace)
	grace := time.NewTimer(w.cfg.Grace)
	defer grace.Stop()
	select {
	case <-grace.C:
		stopWork(errStopped)
	case <-work.Done():
	}
}

func (w *Worker) open() (*channel.Socket, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.started {
		return nil, errors.New("phxworker: Run was called before; make a new Worker")
	}
	socket, err := w.dial()
	if err != nil {
		return nil, fmt.Errorf("phxworker: %w", err)
	}
	w.started, w.socket = true, socket
	return socket, nil
}

// dial opens a socket to the server.
func (w *Worker) dial() (*channel.Socket, error) {
	return channel.Open(channel.Config{
		URL:    w.cfg.URL,
		Params: socketParams(w.cfg.Secret, w.id, w.cfg.Version),
		TLS:    w.cfg.TLS, Proxy: w.cfg.Proxy, NetDial: w.cfg.NetDial,
		Logger: w.log,
	})
}

func (w *Worker) loops(claimer claim.Claimer, starter claim.Starter) []*claim.Loop {
	loops := make([]*claim.Loop, len(w.pools))
	for i, pool := range w.pools {
		loops[i] = claim.NewLoop(claim.Config{
			Pool: pool, Claimer: claimer, Starter: starter,
			WorkerName: w.cfg.Name, Verifier: w.verifier, DemandAll: w.cfg.DemandAll,
			MinBackoff: w.cfg.MinBackoff, MaxBackoff: w.cfg.MaxBackoff, Logger: w.log,
		})
	}
	return loops
}
