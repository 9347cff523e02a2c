package channel

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"
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

	mu      sync.Mutex // guards the fields below; no other lock is taken under it
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

// await returns the connection once there is one. The error is ErrClosed or the context's cause. With
// endWhenRefused, it is also that of the latest dial if the server refused the parameters.
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

// explain adds to an error why there is no connection, or else the caller's reason.
func (s *Socket) explain(err, reason error) error {
	if known := s.Err(); known != nil {
		reason = known
	}
	if reason == nil || errors.Is(err, reason) {
		return err
	}
	return fmt.Errorf("%w (%w)", err, reason)
}

// run makes one connection after the other and reads it.
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
	// The state changes before the topics learn of the end, so that they wait for the next connection.
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

// quiet is the time between two log lines about the same trouble.
const quiet = time.Minute

// report logs the trouble of a socket in few lines: the first failure, then one line a minute, then the
// new connection. A connection that does not last is part of the same trouble. It is not safe for
// concurrent use.
type report struct {
	log *slog.Logger
	url string // without its query

	attempts int // failures since the trouble began
	since    time.Time
	warned   time.Time // when the trouble was last logged
	greeted  time.Time // when a connection was last logged in this trouble
	before   bool      // there was a connection before
}

// reset ends the trouble.
func (r *report) reset() { *r = report{log: r.log, url: r.url, before: r.before} }

func (r *report) down(err error) {
	now := time.Now()
	r.attempts++
	if r.attempts == 1 {
		r.since, r.greeted = now, time.Time{}
	}
	if !r.warned.IsZero() && now.Sub(r.warned) < quiet {
		return
	}
	r.warned = now
	r.log.Warn("not connected, trying again", "url", r.url, "attempts", r.attempts, "error", err)
}

func (r *report) up() {
	now := time.Now()
	if r.greeted.After(r.warned) && now.Sub(r.greeted) < quiet { // else the last word would be that there is none
		return
	}
	r.greeted = now
	message := "connected"
	if r.before {
		message = "connected again"
	}
	r.before = true
	if r.attempts == 0 {
		r.log.Info(message, "url", r.url)
		return
	}
	r.log.Info(message, "url", r.url, "attempts", r.attempts, "after", now.Sub(r.since).Round(time.Millisecond))
}

// steady is how long a connection or a join must have lasted for the next attempt to count as the first
// one again. So a server that accepts and closes at once is tried less and less often.
const steady = 5 * time.Second

// retries paces a series of attempts. The first is made at once, further ones wait exponentially
// longer with full jitter, so that clients which lost a server together come back spread out.
// It is not safe for concurrent use.
type retries struct {
	exp   *backoff.ExponentialBackOff
	first bool // the next retry is the first
}

func newRetries(cfg *Config) *retries {
	// A factor of 1 makes waits from zero to twice the interval, so the intervals are halves.
	exp := backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(cfg.MinBackoff/2),
		backoff.WithMaxInterval(cfg.MaxBackoff/2),
		backoff.WithRandomizationFactor(1),
		backoff.WithMultiplier(2),
		backoff.WithMaxElapsedTime(0),
	)
	return &retries{exp: exp, first: true}
}

func (r *retries) reset() {
	r.first = true
	r.exp.Reset()
}

// spread makes the next attempt wait even if it is the first one: a server that restarts tells all its
// clients at once.
func (r *retries) spread() { r.first = false }

// wait returns when the next attempt is due, when now receives, or when ctx ends.
func (r *retries) wait(ctx context.Context, now <-chan struct{}) {
	if r.first {
		r.first = false
		return
	}
	timer := time.NewTimer(r.exp.NextBackOff())
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-now:
	case <-ctx.Done():
	}
}
