package command

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/phxworker/phxworker/runner"
)

// Pool keeps the processes of an engine. It is used concurrently.
type Pool struct {
	cfg     Config
	program string
	args    []string
	starter *starter
	// endIdleLater and retryLater are set while there is no run, and while spares wait.
	endIdleLater, retryLater *time.Timer
	// work counts runs, starts and processes, and the sweep: all that Close waits for.
	work sync.WaitGroup
	once sync.Once

	mu       sync.Mutex
	living   map[*process]bool // those started and not buried
	idle     []*process        // ready and without a run, those that became so first in front
	waiting  []*waiter         // runs without a process, oldest first
	attempts []*attempt        // processes that are being started, oldest first
	runs     int               // under way
	modules  []string          // of the latest request
	versions runner.Versions
	doubt    error // why the latest start failed, nil if it did not
	keep     bool  // spares are kept: there was a run of late
	held     bool  // no spare is started before the retry
	pause    *backoff.ExponentialBackOff
	closed   bool
}

// NewPool returns a pool that has started no process yet. The error is a
// [*ProgramError] when the program is not there. The pool must be closed.
func NewPool(cfg Config) (*Pool, error) {
	cfg = cfg.withDefaults()
	program, args, err := resolve(cfg.Args)
	if err != nil {
		return nil, err
	}
	p := &Pool{
		cfg: cfg, program: program, args: args, starter: newStarter(), living: make(map[*process]bool),
		pause: backoff.NewExponentialBackOff(
			backoff.WithInitialInterval(500*time.Millisecond),
			backoff.WithMaxInterval(time.Minute),
			backoff.WithMaxElapsedTime(0),
		),
	}
	p.endIdleLater, p.retryLater = time.AfterFunc(time.Hour, p.endIdle), time.AfterFunc(time.Hour, p.retry)
	p.endIdleLater.Stop()
	p.retryLater.Stop()
	p.work.Go(func() { sweepFolders(p.cfg.Logger) })
	return p, nil
}

// Request is what a run asks of its process.
type Request struct {
	// Run is sent as the "run" of the run message.
	Run any
	// Owner is whose run it is. A process that has had a run of an owner gets only runs of this
	// owner after it. Where Owner is empty, the process ends with the run.
	Owner string
	// Modules are what the process should have loaded. One that has most of them
	// is preferred, and new spares load those of the latest request.
	Modules []string
	// MaxLine is the longest message that the process may send about this run, in bytes.
	// Defaults to that of the Config.
	MaxLine int
	// MemoryMB is by how many MB of 2^20 bytes the resident memory of the process
	// and its descendants may grow during the run. Beyond, they are killed and
	// the run is a Kill of type OOMError. 0 is no limit. Only Linux watches it, and not
	// where there is a [Config.Cgroups].
	MemoryMB int
	// LimitMB is the memory of the run in MB of 2^20 bytes, for the group of its process, which may have
	// the overhead of groups besides. Beyond, it ends in the same way. 0 is no limit.
	LimitMB float64
	// Notices are passed on to the process during the run. May be nil.
	Notices <-chan json.RawMessage
}

// Execute gives the run to a process and returns when the process has said that
// it is over, or has died, or ctx has ended and the process is gone. The error is
// then the cause of ctx, otherwise a [*runner.Failure], or [runner.Unable] with
// [ErrUnstarted] when no process could be started; a pool that is closed adds [ErrClosed] to it. ctx is the
// run's, as a [runner.Engine] gets it, or made from it.
func (p *Pool) Execute(ctx context.Context, run *runner.Run, req Request) (runner.Result, error) {
	if !p.enter() {
		return runner.Result{}, errors.Join(engineFailure(ErrClosed), ErrClosed)
	}
	defer p.leave()
	line, err := encode(struct {
		Type string `json:"type"`
		Run  any    `json:"run"`
	}{"run", req.Run})
	if err != nil {
		return runner.Result{}, engineFailure(fmt.Errorf("the run cannot be written as JSON: %w", err))
	}
	p.request(req.Modules)
	proc, err := p.acquire(ctx, req.Owner, req.Modules)
	if err != nil {
		if ctx.Err() != nil { // the reason of the run's end does not tell
			run.Log(runner.TextLine("warn", "R/T", "The run had not begun by then: no process of the engine was ready"))
		}
		return runner.Result{}, unstarted(err)
	}
	proc.runs++
	proc.owner = req.Owner
	proc.maxLine.Store(int64(cmp.Or(req.MaxLine, p.cfg.MaxLine)))
	for _, module := range req.Modules {
		if !slices.Contains(proc.loaded, module) {
			proc.loaded = append(proc.loaded, module)
		}
	}
	if err := proc.group.Limit(req.LimitMB); err != nil {
		proc.abandon()
		return runner.Result{}, unstarted(&startError{what: "its memory cannot be limited: " + err.Error()})
	}
	if proc.group != nil {
		req.MemoryMB = 0
	}
	talk := &talk{cfg: &p.cfg, proc: proc, run: run, notices: req.Notices, steps: make(map[string]*runner.Step), open: make(map[string]bool)}
	result, err := talk.hold(ctx, line, req.MemoryMB)
	p.release(proc, talk.clean)
	return result, err
}

// Versions returns what the program says that it is, in its first message. It
// starts a process if there was none yet, which the next run gets.
func (p *Pool) Versions(ctx context.Context) (runner.Versions, error) {
	if !p.enter() {
		return nil, errors.Join(engineFailure(ErrClosed), ErrClosed)
	}
	defer p.leave()
	p.mu.Lock()
	versions := p.versions
	p.mu.Unlock()
	if versions != nil {
		return versions, nil
	}
	proc, err := p.acquire(ctx, "", nil)
	if err != nil {
		return nil, unstarted(err)
	}
	versions = proc.versions
	p.place(proc)
	return versions, nil
}

// Check returns why no process can be started, as far as that is known: the latest one
// was ready, or else another is started now.
func (p *Pool) Check(ctx context.Context) error {
	p.mu.Lock()
	proven := p.versions != nil && p.doubt == nil && !p.closed
	p.mu.Unlock()
	if proven {
		return nil
	}
	return p.Start(ctx)
}

// Start starts a process, whatever is kept ready, and returns why it is not ready to
// take a run. It is kept for the next one.
func (p *Pool) Start(ctx context.Context) error {
	if !p.enter() {
		return ErrClosed
	}
	defer p.leave()
	p.mu.Lock()
	w := p.queueLocked("")
	p.balanceLocked()
	p.mu.Unlock()
	proc, err := p.await(ctx, w)
	if err == nil {
		p.place(proc)
	}
	return err
}

// Processes returns how many processes there are: with a run, kept ready, or on
// their way to either, until they have exited. What a process has started itself
// is not counted.
func (p *Pool) Processes() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for proc := range p.living {
		select {
		case <-proc.exited: // but its output is still read
		default:
			n++
		}
	}
	return n
}

// Close ends the processes that have no run, waits for the runs under way, and
// returns when all processes are gone. To end runs, end their contexts.
func (p *Pool) Close() error {
	p.once.Do(func() {
		p.mu.Lock()
		p.closed = true
		p.balanceLocked()
		p.mu.Unlock()
		p.endIdle()
		p.work.Wait()
		p.endIdleLater.Stop()
		p.retryLater.Stop()
		p.starter.stop()
	})
	return nil
}

// enter counts a run in; it reports false when the pool is closed.
func (p *Pool) enter() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
	p.work.Add(1)
	p.runs++
	p.endIdleLater.Stop()
	return true
}

func (p *Pool) leave() {
	p.mu.Lock()
	p.runs--
	if p.runs == 0 {
		p.endIdleLater.Reset(p.cfg.SpareIdle)
	}
	p.mu.Unlock()
	p.work.Done()
}

// request notes what the latest run asks for, and has spares kept from now on.
func (p *Pool) request(modules []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.modules, p.keep = modules, true
}
