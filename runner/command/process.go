package command

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/phxworker/phxworker/runner"
	"github.com/phxworker/phxworker/runner/command/cgroup"
)

// stage is what a process is doing, as far as its messages tell.
type stage int

const (
	starting stage = iota // has not said ready
	idle                  // has no run
	busy                  // has a run, and has not said end
)

// process is one of an engine. Two goroutines read its output and a third waits
// for its death; they end soon after it.
type process struct {
	log     *slog.Logger
	cmd     *exec.Cmd
	tmp     string
	sees    []os.FileInfo // the settings that were there when it started
	lock    *os.File      // on tmp
	group   *cgroup.Group // nil if it has none
	maxLine atomic.Int64  // bytes of a message

	stdin, stdout, stderr *os.File

	versions runner.Versions // set when ready is closed
	ready    chan struct{}
	messages chan message  // of the run; closed when there are no more
	left     chan struct{} // closed when nobody takes messages any more
	exit     Exit          // set when exited is closed
	tooLarge bool          // likewise: its group had too much memory
	exited   chan struct{}
	tail     tail

	// Of whoever has the process: the pool while it is idle, then its run.
	runs   int      // it was given
	owner  string   // of those runs
	loaded []string // modules that it was told to load, or that its runs needed

	mu     sync.Mutex
	stage  stage
	used   bool   // has had a run
	reused bool   // has had another before
	said   int    // how much it had written to stderr when its run began
	fault  string // what it did while it had no run
	dead   bool   // no signal may be sent any more
}

// spawn makes a process around a command that has not been started, with a
// folder of its own. start starts the command.
func spawn(cfg *Config, program string, args []string, start func(*exec.Cmd) error) (_ *process, err error) {
	tmp, lock, err := makeFolder()
	if err != nil {
		return nil, fmt.Errorf("no folder can be made for it: %w", err)
	}
	group, err := cfg.Cgroups.New()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("no control group can be made for it: %w", err), lock.Close(), os.RemoveAll(tmp))
	}
	var in, out, errs pipe
	defer func() {
		if err != nil {
			removeGroup(group, cfg.Logger)
			closeAll(in.r, in.w, out.r, out.w, errs.r, errs.w, lock)
			removeFolder(tmp, cfg.Logger)
		}
	}()
	for _, pipe := range []*pipe{&in, &out, &errs} {
		if pipe.r, pipe.w, err = os.Pipe(); err != nil {
			return nil, fmt.Errorf("no pipe can be made for it: %w", err)
		}
	}
	argv := []string{args[0]}
	if cfg.Grant != nil {
		granted, err := cfg.Grant(tmp)
		if err != nil {
			return nil, err
		}
		argv = append(argv, granted...)
	}
	attributes := ownGroup()
	group.Join(attributes)
	p := &process{
		log: cfg.Logger, tmp: tmp, lock: lock, group: group,
		sees: filesAt(cfg.Settings),
		cmd: &exec.Cmd{
			Path: program, Args: append(argv, args[1:]...), Dir: tmp,
			Env:   append(slices.Clone(cfg.Env), "TMPDIR="+tmp, "HOME="+tmp),
			Stdin: in.r, Stdout: out.w, Stderr: errs.w, SysProcAttr: attributes,
		},
		stdin: in.w, stdout: out.r, stderr: errs.r,
		ready: make(chan struct{}), messages: make(chan message), left: make(chan struct{}), exited: make(chan struct{}),
	}
	p.maxLine.Store(int64(cfg.MaxLine))
	if cfg.Wrap != nil {
		if err := cfg.Wrap(p.cmd, tmp); err != nil {
			return nil, err
		}
	}
	if err := start(p.cmd); err != nil {
		return nil, err
	}
	closeAll(in.r, out.w, errs.w)
	return p, nil
}

type pipe struct{ r, w *os.File }

// past is a deadline that ends whatever waits for a pipe.
var past = time.Unix(1, 0)

func closeAll(files ...*os.File) {
	for _, file := range files {
		if file != nil {
			_ = file.Close()
		}
	}
}

// live follows the process until it has exited, nothing of its group is left and
// its output is read.
func (p *process) live() {
	var reading, errReading sync.WaitGroup
	reading.Go(p.readMessages)
	errReading.Go(p.readErrors)

	pid := p.cmd.Process.Pid
	awaitExit(pid)
	p.mu.Lock()
	killGroup(pid)
	p.dead = true
	p.mu.Unlock()
	_ = p.cmd.Wait() // says no more than the state
	killKin(p.tmp)
	p.tooLarge = p.group.Exceeded()
	removeGroup(p.group, p.log)

	// What is in the pipes by now is all there will be.
	_ = p.stdout.SetReadDeadline(past)
	_ = p.stderr.SetReadDeadline(past)
	_ = p.stdin.Close()
	errReading.Wait()
	p.exit = exitOf(p.cmd.ProcessState, p.tail.since(p.begun()))
	close(p.exited)
	removeFolder(p.tmp, p.log)
	closeAll(p.lock)
	reading.Wait()
}

func removeGroup(group *cgroup.Group, log *slog.Logger) {
	if err := group.Remove(); err != nil {
		log.Warn("the control group of an engine process cannot be removed", "error", err)
	}
}

// kill kills the whole group of the process.
func (p *process) kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.dead {
		killGroup(p.cmd.Process.Pid)
	}
}

// abandon kills the process, and leaves unread what it has to say.
func (p *process) abandon() {
	p.kill()
	close(p.left)
}

// dismiss lets the process exit by itself, for a while.
func (p *process) dismiss(grace time.Duration) {
	if grace <= 0 {
		p.kill()
		return
	}
	_ = p.stdin.Close()
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-p.exited:
	case <-timer.C:
		p.kill()
	}
}

// fits reports whether a run of this owner may have the process: what another's has
// left in it could take what the run is given.
func (p *process) fits(owner string) bool {
	return p.runs == 0 || owner != "" && p.owner == owner
}

// filesAt returns what is at some paths, nil where nothing is.
func filesAt(paths []string) []os.FileInfo {
	files := make([]os.FileInfo, len(paths))
	for i, path := range paths {
		files[i], _ = os.Stat(path)
	}
	return files
}

// current reports whether the process can still read its settings: none was replaced.
func (p *process) current(settings []os.FileInfo) bool {
	return slices.EqualFunc(p.sees, settings, func(a, b os.FileInfo) bool { return a == b || os.SameFile(a, b) })
}

// alive reports whether the process is not known to have exited, or to have
// spoken out of turn.
func (p *process) alive() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.dead && p.fault == ""
}

// misspoke returns what the process did while it had no run, empty if nothing.
func (p *process) misspoke() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.fault
}

// begin tells that what the process says from now on is of a run.
func (p *process) begin() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stage, p.reused, p.used, p.said = busy, p.used, true, p.tail.written()
}

// begun returns how much the process had written to stderr when its run began.
func (p *process) begun() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.said
}

// mayQuote reports whether all that the process wrote to stderr is of the run
// that it has now. What a run before it wrote may come late, and would be seen in
// the log of another.
func (p *process) mayQuote() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.reused
}

// unused reports whether the process has not had a run yet.
func (p *process) unused() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.used
}
