package command

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"slices"
	"time"
)

// launch starts a process and waits until it is ready.
func (p *Pool) launch(ctx context.Context) (*process, error) {
	proc, err := spawn(&p.cfg, p.program, p.args, p.starter.start)
	if err != nil {
		return nil, &startError{what: err.Error()}
	}
	p.cfg.Logger.Debug("engine process started", "pid", proc.cmd.Process.Pid)
	p.mu.Lock()
	p.living[proc] = true
	p.mu.Unlock()
	p.work.Go(func() {
		proc.live()
		p.bury(proc)
	})
	timer := time.NewTimer(p.cfg.StartTimeout)
	defer timer.Stop()
	select {
	case <-proc.ready:
		return proc, nil
	case <-proc.exited:
		<-proc.messages // there are none; once all is read they are closed
		select {
		case <-proc.ready:
			return proc, nil // whoever gets it shall tell how it ended
		default:
			return nil, proc.startError()
		}
	case <-timer.C:
		err = fmt.Errorf("it was not ready within %v", p.cfg.StartTimeout)
	case <-ctx.Done(): // nobody waits for it
		err = ErrClosed
	}
	proc.abandon()
	<-proc.exited
	return nil, &startError{what: err.Error()}
}

// startError says why a process that has exited was never ready.
func (p *process) startError() error {
	if fault := p.misspoke(); fault != "" {
		return &startError{what: fault}
	}
	return &startError{what: "it exited before it was ready", exit: &p.exit}
}

// warm has a new process load modules.
func (p *Pool) warm(proc *process, modules []string) error {
	if err := proc.load(modules, p.cfg.StartTimeout); err != nil {
		proc.abandon()
		return &startError{what: "it does not read its input: " + err.Error()}
	}
	return nil
}

// bury forgets a process that has exited.
func (p *Pool) bury(proc *process) {
	p.cfg.Logger.Debug("engine process ended", "pid", proc.cmd.Process.Pid, "exit", proc.exit.String())
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.living, proc)
	i := slices.Index(p.idle, proc)
	if i < 0 {
		return
	}
	p.idle = slices.Delete(p.idle, i, i+1)
	why := errors.New("it exited while it was idle, with " + proc.exit.String())
	if fault := proc.misspoke(); fault != "" {
		why = errors.New(fault)
	}
	p.lostLocked(proc, why)
}

// starter starts processes, all on one thread: on Linux a process ends with the
// thread that started it, and the runtime ends threads as it likes.
type starter struct {
	starts  chan launch
	stopped chan struct{}
}

type launch struct {
	cmd *exec.Cmd
	err chan error
}

func newStarter() *starter {
	s := &starter{starts: make(chan launch), stopped: make(chan struct{})}
	go func() {
		defer close(s.stopped)
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		for l := range s.starts {
			l.err <- l.cmd.Start()
		}
	}()
	return s
}

// start starts a command. It must not be called once the starter is stopped.
func (s *starter) start(cmd *exec.Cmd) error {
	l := launch{cmd: cmd, err: make(chan error, 1)}
	s.starts <- l
	return <-l.err
}

// stop ends the starter, and with it any process that it started.
func (s *starter) stop() {
	close(s.starts)
	<-s.stopped
}
