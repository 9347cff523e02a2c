package channel

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/gorilla/websocket"
)

// Socket is one logical connection to a server, made again whenever it is lost.
type Socket struct {
	cfg    Config
	dialer dialer
	stats  counters
	// ctx ends, with ErrClosed, when the socket is closed.
	ctx    context.Context
	cancel context.CancelCauseFunc
	// running holds the goroutine of the socket and those of its topics.
	running sync.WaitGroup

	mu      sync.Mutex // a leaf; guards what follows
	status  Status
	conn    *conn         // nil unless connected
	changed chan struct{} // closed, and made anew, when status changes
	topics  map[string]*Topic
}

// Open checks the configuration and begins to connect in the background. It
// does not wait for a connection: see [Socket.Connected] and [Socket.Join].
func Open(cfg Config) (*Socket, error) {
	s := &Socket{
		cfg:     cfg.withDefaults(),
		changed: make(chan struct{}),
		topics:  make(map[string]*Topic),
	}
	endpoint, err := s.cfg.endpoint()
	if err != nil {
		return nil, err
	}
	s.dialer.cfg, s.dialer.endpoint = &s.cfg, endpoint
	s.ctx, s.cancel = context.WithCancelCause(context.Background())
	s.running.Go(s.run)
	return s, nil
}

// Close ends the connection with a close frame of code 1000, ends all topics
// with [ErrClosed], and returns when all goroutines of the socket have ended,
// which takes a second at most unless [Config.Params] ignores its context. It
// may be called again, concurrently, and at any time. The error is always nil.
//
// The topics are not left one by one: to the server their channels end with the
// connection.
func (s *Socket) Close() error {
	s.moveTo(Closed, nil, ErrClosed)
	s.cancel(ErrClosed)
	s.running.Wait()
	return nil
}

// Status returns what the socket is doing, and a channel that is closed when
// that changes.
func (s *Socket) Status() (Status, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.status, s.changed
}

// Err returns why there is no connection, or nil: [Status].Err.
func (s *Socket) Err() error {
	status, _ := s.Status()
	return status.Err
}

// Stats returns the counts so far, over all connections.
func (s *Socket) Stats() Stats { return s.stats.read() }

// Connected waits until there is a connection. Its error wraps [ErrClosed], or
// the context's cause and, if there was one, the latest reason why there is no
// connection, for example a [*DialError].
func (s *Socket) Connected(ctx context.Context) error {
	_, err := s.await(ctx, false)
	if err == nil {
		return nil
	}
	return fmt.Errorf("channel: wait for a connection: %w", s.explain(err, nil))
}

// await returns the connection, once there is one. The error is ErrClosed, the context's cause,
// or, if endWhenRefused says so, the latest dial's when the server refused the parameters.
func (s *Socket) await(ctx context.Context, endWhenRefused bool) (*conn, error) {
	for {
		s.mu.Lock()
		c, status, changed := s.conn, s.status, s.changed
		s.mu.Unlock()
		switch {
		case c != nil:
			return c, nil
		case status.State == Closed:
			return nil, ErrClosed
		case endWhenRefused && isRefusedDial(status.Err):
			return nil, status.Err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// explain adds to an error what the socket, or else the caller, knows of the
// reason.
func (s *Socket) explain(err, reason error) error {
	if known := s.Err(); known != nil {
		reason = known
	}
	if reason == nil || errors.Is(err, reason) {
		return err
	}
	return fmt.Errorf("%w (%w)", err, reason)
}

// run makes connections, one after the other, and reads them.
func (s *Socket) run() {
	pace := newRetries(&s.cfg)
	report := report{log: s.cfg.Logger, url: redact(s.dialer.endpoint)}
	for s.ctx.Err() == nil {
		err := s.connect(pace, &report)
		if s.ctx.Err() != nil {
			return
		}
		s.stats.lose(causeOf(err))
		report.down(err)
		if closed, ok := errors.AsType[*websocket.CloseError](err); ok && closed.Code == websocket.CloseServiceRestart {
			pace.spread()
		}
		pace.wait(s.ctx, nil)
	}
}

// connect makes one connection and returns why it failed or, at its end, why
// it ended.
func (s *Socket) connect(pace *retries, report *report) error {
	ws, err := s.dialer.dial(s.ctx)
	if err != nil {
		s.moveTo(Connecting, nil, err)
		return err
	}
	c := newConn(ws, &s.cfg, &s.stats)
	made := time.Now()
	s.moveTo(Connected, c, nil)
	report.up()
	err = c.serve(s.ctx)
	// The topics learn of the end only when the socket has none to offer, so
	// that they wait for the next.
	s.moveTo(Connecting, nil, err)
	c.end(err)
	if time.Since(made) >= steady {
		pace.reset()
		report.reset()
	}
	return err
}

// moveTo is the only place where the state changes. Nothing follows Closed.
func (s *Socket) moveTo(state State, c *conn, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.status.State == Closed {
		return
	}
	dialed := s.status.State == Connecting // since the last connection
	s.status.State, s.status.Err, s.conn = state, err, c
	switch {
	case state == Connected:
		s.status.Attempts = 0
		s.status.Connections++
	case state == Connecting && dialed:
		s.status.Attempts++
	}
	close(s.changed)
	s.changed = make(chan struct{})
}
