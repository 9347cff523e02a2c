package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"
)

// subject is the worker under test, started.
type subject struct {
	signal func() error  // SIGTERM, or what stands for it
	kill   func()        // ends it and all that it started, at once
	done   chan struct{} // closed when it has ended
	err    error         // how it ended; set before done is closed
	log    *keeper
}

// start starts the worker.
func (target Target) start(e Environment) (*subject, error) {
	if len(target.Command) == 0 {
		return target.startFunc(e), nil
	}
	return target.startCommand(e)
}

func (target Target) startFunc(e Environment) *subject {
	ctx, stop := context.WithCancel(context.Background())
	abort, log := make(chan struct{}), new(keeper)
	closeAbort := sync.OnceFunc(func() { close(abort) })
	e.Abort, e.Log = abort, log
	s := &subject{done: make(chan struct{}), log: log}
	s.signal = func() error {
		if ctx.Err() != nil {
			closeAbort()
		}
		stop()
		return nil
	}
	s.kill = func() {
		stop()
		closeAbort()
	}
	go func() {
		defer close(s.done)
		s.err = target.Func(ctx, e)
	}()
	return s
}

func (target Target) startCommand(e Environment) (*subject, error) {
	args := make([]string, len(target.Command))
	fill := strings.NewReplacer("{url}", e.URL, "{secret}", e.Secret, "{capacity}", strconv.Itoa(max(1, e.Capacity)), "{workloops}", e.workloops())
	for i, arg := range target.Command {
		args[i] = fill.Replace(arg)
	}
	log := new(keeper)
	cmd := exec.Command(args[0], args[1:]...) //nolint:gosec,noctx // it is what the user wants to start; it is ended by its group
	cmd.Env = append(append(inherited(), e.variables()...), target.Env...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.WaitDelay = time.Second // for what it has started and left behind with its pipes
	group := ownGroup(cmd)
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the worker: %w", err)
	}
	s := &subject{done: make(chan struct{}), log: log}
	s.signal = func() error { return terminate(cmd) }
	killOnce := sync.OnceFunc(group)
	s.kill = killOnce
	go func() {
		defer close(s.done)
		s.err = cmd.Wait()
		killOnce() // now, and never later: its id may be that of another group by then
		if errors.Is(s.err, exec.ErrWaitDelay) {
			s.err = nil
		}
	}()
	return s, nil
}

// inherited are the variables of this process that are none of a worker's.
func inherited() (env []string) {
	for _, entry := range os.Environ() {
		if !strings.HasPrefix(entry, "WORKER_") {
			env = append(env, entry)
		}
	}
	return env
}

// workloops are the slot groups as a text, also where the capacity says how many.
func (e Environment) workloops() string {
	if e.Workloops != "" {
		return e.Workloops
	}
	return fmt.Sprintf("manual>*:%d", e.Capacity)
}

// variables are those of ws-worker.
func (e Environment) variables() []string {
	vars := []string{
		"WORKER_LIGHTNING_SERVICE_URL=" + e.URL, "WORKER_SECRET=" + e.Secret,
		"WORKER_PORT=" + freePort(), // several workers at once; ws-worker takes 0 for its own 2222
		fmt.Sprintf("WORKER_BACKOFF=%d/%d", int(e.MinBackoff.Seconds()), int(e.MaxBackoff.Seconds())),
	}
	if e.Workloops != "" {
		vars = append(vars, "WORKER_WORKLOOPS="+e.Workloops)
	} else {
		vars = append(vars, "WORKER_CAPACITY="+strconv.Itoa(e.Capacity))
	}
	if e.PublicKey != "" {
		vars = append(vars, "WORKER_LIGHTNING_PUBLIC_KEY="+e.PublicKey)
	}
	if e.MessageTimeout > 0 {
		vars = append(vars, "WORKER_MESSAGE_TIMEOUT_SECONDS="+strconv.Itoa(int(e.MessageTimeout.Seconds())))
	}
	return vars
}

// freePort is a port of loopback that nobody listens on, or 0 where there is none.
func freePort() string {
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return "0"
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String()) // it is an address of TCP
	return port
}

// exited says how the worker ended.
func (s *subject) exited() string {
	if s.err == nil {
		return "the worker has ended with exit code 0"
	}
	return fmt.Sprintf("the worker has ended: %v", s.err)
}

// keeper keeps what the worker writes, up to a limit.
type keeper struct {
	mu   sync.Mutex // guards what follows
	text []byte
	cut  bool
}

var _ io.Writer = (*keeper)(nil)

const maxKept = 1 << 20

// Write implements [io.Writer].
func (k *keeper) Write(p []byte) (int, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	room := maxKept - len(k.text)
	k.cut = k.cut || len(p) > room
	k.text = append(k.text, p[:min(len(p), room)]...)
	return len(p), nil
}

// String is what was written.
func (k *keeper) String() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.cut {
		return string(k.text) + "\n[the rest is left out]"
	}
	return string(k.text)
}
