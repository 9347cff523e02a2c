// Package wstest joins a websocket client and a server in memory, for tests.
//
// A [Listener] is a net.Listener whose connections are net.Pipe pairs, so the
// real client and a real http.Server run inside a testing/synctest bubble,
// where sockets of the kernel cannot: waiting on a pipe lets the fake clock
// move on, waiting on the kernel does not.
//
// A pipe has no buffer. A write returns once the other side has read it, or
// fails at its deadline, so a peer that stops reading is felt at once.
package wstest

import (
	"context"
	"net"
	"sync"
)

// Listener accepts what its DialContext dials. All methods may be called
// concurrently.
type Listener struct {
	accept chan net.Conn
	closed chan struct{}
	once   sync.Once

	mu     sync.Mutex // guards the two below
	dialed int
	open   int
}

var _ net.Listener = (*Listener)(nil)

// NewListener returns a listener that is ready to be dialed.
func NewListener() *Listener {
	return &Listener{accept: make(chan net.Conn), closed: make(chan struct{})}
}

// DialContext returns the client's end of a new connection once the server has
// accepted the other. The network and the address are ignored. It fails as a
// refused TCP connection would when the listener is closed.
func (l *Listener) DialContext(ctx context.Context, network, _ string) (net.Conn, error) {
	client, server := net.Pipe()
	tracked := &conn{Conn: client, closed: l.forget}
	l.mu.Lock()
	l.dialed++
	l.open++
	l.mu.Unlock()
	var err error
	select {
	case l.accept <- server:
		return tracked, nil
	case <-l.closed:
		err = net.ErrClosed
	case <-ctx.Done():
		err = ctx.Err()
	}
	_ = tracked.Close()
	_ = server.Close()
	return nil, &net.OpError{Op: "dial", Net: network, Addr: addr{}, Err: err}
}

// Accept returns the server's end of the next connection.
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.accept:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close refuses further dials. Connections already made are left alone.
func (l *Listener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// Addr returns a placeholder.
func (l *Listener) Addr() net.Addr { return addr{} }

// Dialed returns how many connections were dialed, refused ones included.
func (l *Listener) Dialed() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.dialed
}

// Open returns how many connections the dialing side has not closed yet.
func (l *Listener) Open() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.open
}

func (l *Listener) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open--
}

// conn reports the first time it is closed.
type conn struct {
	net.Conn
	once   sync.Once
	closed func()
}

func (c *conn) Close() error {
	err := c.Conn.Close()
	c.once.Do(c.closed)
	return err
}

type addr struct{}

func (addr) Network() string { return "pipe" }
func (addr) String() string  { return "pipe" }
