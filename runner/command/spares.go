package command

import (
	"context"
	"errors"
	"os"
	"slices"

	"github.com/phxworker/phxworker/runner"
)

// waiter is a run that waits for a process.
type waiter struct {
	owner   string
	granted chan grant
}

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

// acquire returns a process that is ready, has no run, and fits a run of this owner. A
// new one fails only the run that has waited longest. The error is the cause of ctx
// when that has ended, else a [*startError].
func (p *Pool) acquire(ctx context.Context, owner string, modules []string) (*process, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	settings := filesAt(p.cfg.Settings)
	p.mu.Lock()
	p.endOutdatedLocked(settings)
	proc := p.takeIdleLocked(owner, modules)
	if proc == nil || proc.runs == 0 {
		p.endOneLocked()
	}
	var w *waiter
	if proc == nil {
		w = p.queueLocked(owner)
	}
	p.balanceLocked()
	p.mu.Unlock()
	if proc != nil {
		return proc, nil
	}
	return p.await(ctx, w)
}

func (p *Pool) queueLocked(owner string) *waiter {
	w := &waiter{owner: owner, granted: make(chan grant, 1)}
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
// those that fit a run of this owner. Of several it takes one that has had a run, for
// the others fit any; then the one that has been idle longest and so has finished
// loading.
func (p *Pool) takeIdleLocked(owner string, modules []string) *process {
	var best *process
	most := 0
	for _, proc := range p.idle {
		if !proc.fits(owner) || !proc.alive() {
			continue
		}
		loaded := 0
		for _, module := range modules {
			if slices.Contains(proc.loaded, module) {
				loaded++
			}
		}
		if best == nil || loaded > most || loaded == most && best.runs == 0 && proc.runs > 0 {
			best, most = proc, loaded
		}
	}
	p.idle = slices.DeleteFunc(p.idle, func(proc *process) bool { return proc == best })
	return best
}

// endOutdatedLocked ends the idle processes that cannot read the settings of now.
func (p *Pool) endOutdatedLocked(settings []os.FileInfo) {
	p.idle = slices.DeleteFunc(p.idle, func(proc *process) bool {
		outdated := !proc.current(settings)
		if outdated {
			p.work.Go(func() { proc.dismiss(p.cfg.CancelGrace) })
		}
		return outdated
	})
}

// endOneLocked ends the process that has been idle longest of those that have had runs,
// because one that has had none takes the place of it: besides the spares, there are
// never more processes than there were runs at one time.
func (p *Pool) endOneLocked() {
	i := slices.IndexFunc(p.idle, func(proc *process) bool { return proc.runs > 0 })
	if i < 0 {
		return
	}
	proc := p.idle[i]
	p.idle = slices.Delete(p.idle, i, i+1)
	p.work.Go(func() { proc.dismiss(p.cfg.CancelGrace) })
}

// release takes a process back after a run.
func (p *Pool) release(proc *process, clean bool) {
	if clean {
		p.mu.Lock()
		p.pause.Reset()
		p.mu.Unlock()
	}
	if !clean || proc.owner == "" || proc.runs >= p.cfg.Runs || !proc.current(filesAt(p.cfg.Settings)) {
		proc.abandon()
		return
	}
	p.place(proc)
}

// place gives a process that has no run to whoever waits for one that it fits, or keeps
// it. One that has died before its first run still goes to a run that waits, which then
// tells of it: another in its place might fare no better.
func (p *Pool) place(proc *process) {
	p.mu.Lock()
	defer p.mu.Unlock()
	alive := proc.alive()
	i := slices.IndexFunc(p.waiting, func(w *waiter) bool { return proc.fits(w.owner) })
	switch {
	case i >= 0 && (alive || proc.unused()):
		p.grantLocked(i, grant{proc: proc})
	case !alive:
		p.lostLocked(proc, errors.New("it ended once it was ready"))
	case p.closed:
		p.work.Go(func() { proc.dismiss(p.cfg.CancelGrace) })
	default:
		p.idle = append(p.idle, proc)
		if p.runs == 0 { // those before it may have been ended for that already
			p.endIdleLater.Reset(p.cfg.SpareIdle)
		}
	}
}

// grantLocked ends the wait of a run.
func (p *Pool) grantLocked(i int, g grant) {
	p.waiting[i].granted <- g
	p.waiting = slices.Delete(p.waiting, i, i+1)
}

// balanceLocked starts as many processes as there are runs that wait, and more
// until there are enough spares. Once the pool is closed, it ends those starts
// that nobody waits for.
func (p *Pool) balanceLocked() {
	want := len(p.waiting)
	if p.keep && !p.held && !p.closed {
		want = max(want, len(p.waiting)+p.cfg.Spares-p.sparesLocked())
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

// sparesLocked returns how many idle processes a run of any owner may have.
func (p *Pool) sparesLocked() int {
	n := 0
	for _, proc := range p.idle {
		if proc.runs == 0 {
			n++
		}
	}
	return n
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
		p.grantLocked(0, grant{err: err})
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
	p.retryLater.Reset(pause)
	p.cfg.Logger.Warn("an engine process was lost before it had a run", "error", why, "next_spare_in", pause)
}

// retry lets spares be started again.
func (p *Pool) retry() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held = false
	p.balanceLocked()
}

// endIdle ends the processes that have no run, unless there is a run, and keeps
// none until there is one.
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
