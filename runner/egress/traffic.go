package egress

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	dialTimeout = 10 * time.Second
	// mostTold bounds the lines in the log of a run.
	mostTold = 20
)

// Traffic is that of one run.
type Traffic struct {
	guard  *Guard
	limits Limits
	tell   func(string)
	ctx    context.Context // ends with the traffic
	cancel context.CancelFunc
	turns  chan struct{} // of requests under way
	full   chan struct{} // of calls whose answers are in memory
	large  chan struct{} // of the call whose answer is in memory beyond mostTogether

	bytes atomic.Int64 // of bodies, both ways

	dials sync.WaitGroup // under way

	mu          sync.Mutex
	closed      bool
	waiting     int64 // bytes of calls that wait or are under way
	requests    int
	connections int // that were ever begun
	used        int // connections that are open, or about to be
	open        map[*conn]bool
	closing     chan struct{} // closed when one of the used is no more
	told        map[string]bool
}

// Close closes the connections of the run, and lets it make no others. It waits for those that are about to be made.
func (t *Traffic) Close() {
	t.cancel()
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	t.dials.Wait()
	t.mu.Lock()
	open := slices.Collect(maps.Keys(t.open))
	t.mu.Unlock()
	for _, one := range open {
		_ = one.Close()
	}
}

// Dial connects to a host and a port, as that of a [net.Dialer]. Where as many connections are open as may be, it calls spare, which
// closes those that nobody uses, and waits for one to be closed, as long as a connection may take. The error is an [*Error] for what is
// refused.
func (t *Traffic) Dial(ctx context.Context, network, address string, spare func()) (net.Conn, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(t.ctx, cancel)()
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	name := nameOf(host)
	if r := t.guard.cfg.Policy.refusesName(name); r != nil {
		t.countConnection(Unknown, Refused)
		return nil, t.refused(address, "", r)
	}
	if err := t.reserve(ctx, spare); err != nil {
		t.countConnection(Unknown, Refused)
		return nil, t.limited(err)
	}
	defer t.dials.Done()
	class := new(atomic.Pointer[Class]) // of the address that was tried last
	refused := new(atomic.Pointer[Error])
	dialer := net.Dialer{Timeout: dialTimeout, Resolver: t.guard.cfg.Resolver, ControlContext: func(_ context.Context, _, to string, _ syscall.RawConn) error {
		at, err := netip.ParseAddrPort(to)
		if err != nil {
			return err
		}
		found := ClassOf(at.Addr())
		class.Store(&found)
		if r := t.guard.refuses(name, at); r != nil {
			err := t.refused(address, to, r)
			refused.Store(err)
			return err
		}
		return nil
	}}
	made, err := dialer.DialContext(ctx, network, address)
	if err == nil {
		if to, ok := made.RemoteAddr().(*net.TCPAddr); ok {
			found := ClassOf(to.AddrPort().Addr())
			class.Store(&found)
		}
		return t.opened(made, *class.Load()), nil
	}
	t.mu.Lock()
	t.closedLocked()
	t.mu.Unlock()
	last, outcome := Unknown, Failed
	if found := class.Load(); found != nil {
		last = *found
	}
	if why := refused.Load(); why != nil {
		err, outcome = why, Refused
	}
	t.countConnection(last, outcome)
	return nil, err
}

func (t *Traffic) countConnection(class Class, outcome Outcome) {
	t.guard.count(func(s *Stats) { s.Connections[Connection{class, outcome}]++ })
}

// reserve counts a connection that is about to be made, once fewer are open than may be. What clients hold without need is no reason
// to refuse one: they connect ahead, and keep what is idle.
func (t *Traffic) reserve(ctx context.Context, spare func()) error {
	closing, err := t.take()
	if closing == nil {
		return err
	}
	late := time.NewTimer(dialTimeout)
	defer late.Stop()
	for {
		spare()
		select {
		case <-closing:
		case <-late.C:
			return limit("EMFILE", syscall.EMFILE, fmt.Sprintf("a run may have %d connections open at once", t.limits.Open))
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if closing, err = t.take(); closing == nil {
			return err
		}
	}
}

// take counts a connection if it may be made now. If it may be made later, it returns what is closed when to ask again.
func (t *Traffic) take() (closing <-chan struct{}, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.closed:
		return nil, context.Canceled
	case t.connections >= t.limits.Connections:
		return nil, limit("EDQUOT", syscall.EDQUOT, fmt.Sprintf("a run may open %d connections", t.limits.Connections))
	case t.used >= t.limits.Open:
		if t.closing == nil {
			t.closing = make(chan struct{})
		}
		return t.closing, nil
	}
	t.connections++
	t.used++
	t.dials.Add(1)
	return nil, nil
}

// closedLocked counts a connection that is closed, or was not made.
func (t *Traffic) closedLocked() {
	t.used--
	if t.closing != nil {
		close(t.closing)
		t.closing = nil
	}
}

func (t *Traffic) opened(made net.Conn, class Class) net.Conn {
	t.countConnection(class, Opened)
	one := &conn{Conn: made, traffic: t}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.open[one] = true
	return one
}

// conn is a connection that its traffic knows.
type conn struct {
	net.Conn

	traffic *Traffic
}

func (c *conn) Close() error {
	t := c.traffic
	t.mu.Lock()
	if t.open[c] {
		delete(t.open, c)
		t.closedLocked()
	}
	t.mu.Unlock()
	return c.Conn.Close()
}

// refused tells of a host that the policy refuses, and returns the error; to is its address, "" if it has none yet.
func (t *Traffic) refused(address, to string, r *refusal) *Error {
	e := &Error{Code: "EACCES", Errno: -int(syscall.EACCES), Syscall: "connect"}
	shown := address
	if to != "" {
		host, port, _ := net.SplitHostPort(to)
		e.Address = host
		e.Port, _ = strconv.Atoi(port)
		if to != address {
			shown = address + " (" + host + ")"
		}
	}
	e.message = fmt.Sprintf("connect EACCES %s: %v", shown, r)
	t.say(fmt.Sprintf("The job may not connect to %s: %v", shown, r))
	return e
}

// limited tells of a limit that struck, if the error is of one, and returns it.
func (t *Traffic) limited(err error) error {
	if e, ok := errors.AsType[*Error](err); ok && e.limit != "" {
		t.say("The job has reached a limit of this worker: " + e.limit)
	}
	return err
}

// say tells a line that was not told before.
func (t *Traffic) say(line string) {
	t.mu.Lock()
	silent := t.tell == nil || t.closed || t.told[line] || len(t.told) > mostTold
	if !silent {
		t.told[line] = true
	}
	if len(t.told) > mostTold {
		line = "More connections and requests of the job are refused; the log has no line for each"
	}
	t.mu.Unlock()
	if !silent {
		t.tell(line)
	}
}
