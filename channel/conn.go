package channel

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gorilla/websocket"

	"github.com/phxworker/phxworker/channel/frame"
)

// farewell bounds the exchange of close frames when the socket is closed.
const farewell = time.Second

// conn is one connection with one life: it serves, ends with a cause, and is
// never used again. What waits on it for a reply is answered at its end, so no
// late reply can reach a later connection.
type conn struct {
	ws    *websocket.Conn
	cfg   *Config
	stats *counters
	// ctx ends, with the cause, when the connection can no longer be written to.
	ctx    context.Context
	cancel context.CancelCauseFunc
	// done is closed when the goroutines have returned and all waiters are answered.
	done chan struct{}
	// token is held by who writes; it is a channel, not a mutex, so that waiting
	// for it can be given up.
	token    chan struct{}
	deadline time.Time     // of writes; used by the token's holder only
	refs     atomic.Uint64 // the last ref given out
	inbox    inbox         // the reader's, but for its signs of life
	// keeper is the goroutine that runs keep.
	keeper sync.WaitGroup

	encoders sync.Pool // of *encoder
	idle     sync.Pool // of *waiter, none of them in the table

	mu      sync.Mutex // a leaf; guards what follows
	ended   bool       // nothing may be registered any more
	waiters map[frame.Ref]*waiter
	joins   map[string]*Join // by topic: the join that counts
}

func newConn(ws *websocket.Conn, cfg *Config, stats *counters) *conn {
	c := &conn{
		ws: ws, cfg: cfg, stats: stats,
		done:    make(chan struct{}),
		token:   make(chan struct{}, 1),
		waiters: make(map[frame.Ref]*waiter),
		joins:   make(map[string]*Join),
	}
	c.inbox.ws, c.inbox.limit, c.inbox.most, c.inbox.limitOf = ws, cfg.ReadLimit, cfg.discardLimit, c.limitOf
	c.encoders.New = func() any { return newEncoder() }
	c.idle.New = func() any { return &waiter{answer: make(chan answer, 1)} }
	// Not derived from the socket's context: on Close the connection takes its
	// leave of the server before it ends.
	c.ctx, c.cancel = context.WithCancelCause(context.Background())
	return c
}

// serve reads until the connection ends and returns why. The end of ctx closes
// it in an orderly way. It must be followed by end.
func (c *conn) serve(ctx context.Context) error {
	c.keeper.Go(func() { c.keep(ctx) })
	c.fail(c.read())
	return context.Cause(c.ctx)
}

// read dispatches messages until the connection ends.
func (c *conn) read() error {
	for {
		m, err := c.inbox.next()
		if err != nil {
			return fmt.Errorf("the connection was lost: %w", err)
		}
		decode, deal := frame.Decode, c.dispatch
		if m.isTooLarge() {
			decode, deal = frame.DecodeHead, func(f *frame.Frame) { c.leaveOut(f, m.limit) }
		}
		f, err := decode(m.data, m.binary)
		if err != nil {
			return fmt.Errorf("%w: %w", errUnreadable, err)
		}
		deal(&f)
		if !m.isTooLarge() {
			continue
		}
		if err := c.inbox.discard(&m); err != nil {
			return fmt.Errorf("the connection was lost: %w", err)
		}
		c.cfg.Logger.Warn("a message of the server was too large and was left out",
			"topic", shorten(f.Topic, shortText), "event", shorten(f.Event, shortText), "bytes", m.size, "limit", m.limit)
	}
}

// keep sends heartbeats until the connection ends, or says goodbye to the
// server when ctx ends.
func (c *conn) keep(ctx context.Context) {
	ticker := time.NewTicker(c.cfg.HeartbeatInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			c.heartbeat(ctx)
		case <-c.ctx.Done():
			return
		case <-ctx.Done():
			c.goodbye(context.Cause(ctx))
			return
		}
	}
}

// heartbeat sends a heartbeat, and ends the connection when the answer is not there in time,
// unless it may be behind a large message that is coming in: then the next heartbeat is
// sent without it, for the server wants to hear of us meanwhile. The time counts from when it
// is written: behind large messages of ours that may take a while, in which they are the sign
// of life, with a deadline of their own.
func (c *conn) heartbeat(ctx context.Context) {
	ref := c.nextRef()
	w, err := c.request(ctx, nil, ref, frame.Heartbeat, nil)
	if err != nil {
		return // the connection is ending already
	}
	written, received := time.Now(), c.inbox.received.Load()
	ctx, cancel := context.WithTimeoutCause(ctx, c.cfg.HeartbeatInterval, errHeartbeat)
	defer cancel()
	switch _, err = c.reply(ctx, ref, w, 0); {
	case err == nil:
		c.stats.roundTrip.Store(int64(time.Since(written)))
	case !errors.Is(err, errHeartbeat):
	case c.inbox.arriving.Load() && c.inbox.received.Load() > received: // it is behind what is coming in
	default:
		c.fail(errHeartbeat)
	}
}

// goodbye sends a close frame and gives the server a moment to answer it,
// whereupon the reader ends by itself.
func (c *conn) goodbye(cause error) {
	c.cancel(cause)
	deadline := time.Now().Add(farewell)
	_ = c.ws.SetReadDeadline(deadline)
	message := websocket.FormatCloseMessage(websocket.CloseNormalClosure, "")
	if err := c.ws.WriteControl(websocket.CloseMessage, message, deadline); err != nil {
		_ = c.ws.Close()
	}
}

// fail ends the connection. The first cause is the one that counts.
func (c *conn) fail(cause error) {
	c.cancel(cause)
	_ = c.ws.Close()
}

// end tells all who wait on the connection that it is over, and waits for
// the keeper, which may be one of them.
func (c *conn) end(cause error) {
	c.mu.Lock()
	c.ended = true
	waiters, joins := c.waiters, c.joins
	c.waiters, c.joins = nil, nil
	c.mu.Unlock()
	unanswered := make(map[*Join]int)
	for _, w := range waiters {
		unanswered[w.join]++
	}
	for _, j := range joins {
		j.end(cause, unanswered[j])
	}
	for _, w := range waiters {
		w.answer <- answer{lost: cause}
	}
	c.keeper.Wait()
	close(c.done)
}
