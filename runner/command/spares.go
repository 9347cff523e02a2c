package command

import (
	"context"
	"errors"
	"slices"

	"github.com/phxworker/phxworker/runner"
)

// waiter is a run that waits for a process.
type waiter struct{ granted chan grant }

type grant struct {
	proc *process
	err  error
}

// attempt is the start of one process.
type attempt struct {
	ctx    context.Context
	cancel context.CancelFunc
}

func newAttempt() *attempt {
	ctx, cancel := context.WithCancel(context.Background())
	return &attempt{ctx: ctx, cancel: cancel}
}

// acquire returns a process that is ready and has no run. A new one fails only
// the run that has waited longest. The error is the cause of ctx when that has
// ended, else a [*startError].
func (p *Pool) acquire(ctx context.Context, modules []string) (*process, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	p.mu.Lock()
	proc := p.takeIdleLocked(modules)
	var w *waiter
	if proc == nil {
		w = p.queueLocked()
	}
	p.balanceLocked()
	p.mu.Unlock()
	if proc != nil {
		return proc, nil
	}
	return p.await(ctx, w)
}

func (p *Pool) queueLocked() *waiter {
	w := &waiter{granted: make(chan grant, 1)}
	p.waiting = append(p.waiting, w)
	return w
}

// await returns what the waiter is given, as acquire does.
func (p *Pool) await(ctx context.Context, w *waiter) (*process, error) {
	select {
	case g := <-w.granted:
		if g.err != nil && ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return g.proc, g.err
	case <-ctx.Done():
	}
	p.mu.Lock()
	if i := slices.Index(p.waiting, w); i >= 0 {
		p.waiting = slices.Delete(p.waiting, i, i+1)
		p.balanceLocked()
		p.mu.Unlock()
		return nil, context.Cause(ctx)
	}
	p.mu.Unlock()
	if g := <-w.granted; g.proc != nil {
		p.place(g.proc)
	}
	return nil, context.Cause(ctx)
}

// takeIdleLocked takes the idle process that has loaded most of the modules, of
// several the one that has been idle longest and so has finished loading.
func (p *Pool) takeIdleLocked(modules []string) *process {
	best, most := -1, -1
	for i, proc := range p.idle {
		loaded := 0
		for _, module := range modules {
			if slices.Contains(proc.loaded, module) {
				loaded++
			}
		}
		if loaded > most && proc.alive() {
			best, most = i, loaded
		}
	}
	if best < 0 {
		return nil
	}
	proc := p.idle[best]
	p.idle = slices.Delete(p.idle, best, best+1)
	return proc
}

// release takes a process back after a run.
func (p *Pool) release(proc *process, clean bool) {
	if clean {
		p.mu.Lock()
		p.pause.Reset()
		p.mu.Unlock()
	}
	if !clean || proc.runs >= p.cfg.Runs {
		proc.abandon()
		return
	}
	p.place(proc)
}

// place gives a process that has no run to whoever waits for one, or keeps it. One
// that has died before its first run still goes to a run that waits, which then
// tells of it: another in its place might fare no better.
func (p *Pool) place(proc *process) {
	p.mu.Lock()
	defer p.mu.Unlock()
	alive := proc.alive()
	switch {
	case len(p.waiting) > 0 && (alive || proc.unused()):
		p.grantLocked(grant{proc: proc})
	case !alive:
		p.lostLocked(proc, errors.New("it ended once it was ready"))
	case p.closed:
		p.work.Go(func() { proc.dismiss(p.cfg.CancelGrace) })
	default:
		p.idle = append(p.idle, proc)
	}
}

// grantLocked ends the wait of the run that has waited longest.
func (p *Pool) grantLocked(g grant) {
	p.waiting[0].granted <- g
	p.waiting = slices.Delete(p.waiting, 0, 1)
}

// balanceLocked starts as many processes as there are runs that wait, and more
// until there are enough spares. Once the pool is closed, it ends those starts
// that nobody waits for.
func (p *Pool) balanceLocked() {
	want := len(p.waiting)
	if p.keep && !p.held && !p.closed {
		want = max(want, len(p.waiting)+p.cfg.Spares-len(p.idle))
	}
	for len(p.attempts) < want {
		a := newAttempt()
		p.attempts = append(p.attempts, a)
		p.work.Go(func() { p.start(a) })
	}
	for i := len(p.attempts) - 1; p.closed && i >= want; i-- {
		p.attempts[i].cancel()
	}
}

// start makes one attempt to bring a process to where it can take a run.
func (p *Pool) start(a *attempt) {
	defer a.cancel()
	proc, err := p.launch(a.ctx)
	if err == nil {
		if modules := p.ahead(proc.versions); modules != nil {
			err = p.warm(proc, modules)
		}
	}
	p.mu.Lock()
	p.attempts = slices.DeleteFunc(p.attempts, func(other *attempt) bool { return other == a })
	if err != nil {
		p.failedLocked(err)
	}
	p.mu.Unlock()
	if err == nil {
		p.place(proc)
	}
}

// ahead notes the versions of a new process, and returns what it should load if
// no run waits for it: what a run needs the process loads anyway.
func (p *Pool) ahead(versions runner.Versions) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.doubt = nil
	p.versions = runner.Versions{}
	if versions != nil {
		p.versions = versions
	}
	if len(p.waiting) > 0 {
		return nil
	}
	return p.modules
}

// failedLocked tells the run that waited for the process, or else has the next
// spare wait: a program that cannot be started must not be started in a loop.
func (p *Pool) failedLocked(err error) {
	p.doubt = err
	if len(p.waiting) > 0 {
		p.grantLocked(grant{err: err})
	}
	p.holdLocked(err)
	p.balanceLocked()
}

// lostLocked makes up for a process that has died without a run. After one that
// never had a run, the next spare waits.
func (p *Pool) lostLocked(proc *process, why error) {
	if proc.unused() {
		p.holdLocked(why)
	}
	p.balanceLocked()
}

// holdLocked has the next spare wait.
func (p *Pool) holdLocked(why error) {
	if p.held || p.closed {
		return
	}
	p.held = true
	pause := p.pause.NextBackOff()
	p.keeper.retry.Reset(pause)
	p.cfg.Logger.Warn("an engine process was lost before it had a run", "error", why, "next_spare_in", pause)
}

// retry is called by the keeper when spares may be started again.
func (p *Pool) retry() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held = false
	p.balanceLocked()
}

// endIdle ends the processes that have no run, unless there is a run, and keeps
// none until there is one. The keeper calls it.
func (p *Pool) endIdle() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.runs > 0 && !p.closed {
		return
	}
	p.keep = false
	for _, proc := range p.idle {
		p.work.Go(func() { proc.dismiss(p.cfg.CancelGrace) })
	}
	p.idle = nil
}
