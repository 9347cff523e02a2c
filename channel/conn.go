package channel

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gorilla/websocket"

	"github.com/phxworker/phxworker/channel/frame"
)

// farewell bounds the exchange of close frames when the socket is closed.
const farewell = time.Second

// conn is one connection with one life: it serves, ends with a cause, and is never used again. At its
// end it answers everyone who waits on it for a reply, so that no late reply can reach a later
// connection.
type conn struct {
	ws    *websocket.Conn
	cfg   *Config
	stats *counters
	// ctx ends, with the cause, when the connection can no longer be written to.
	ctx    context.Context
	cancel context.CancelCauseFunc
	// done is closed when the goroutines have returned and all waiters are answered.
	done chan struct{}
	// token is the right to write. It is a channel and not a mutex, so that the wait for it can end.
	token    chan struct{}
	deadline time.Time      // of writes; only the holder of the token uses it
	refs     atomic.Uint64  // the last ref given out
	inbox    inbox          // only the reader uses it, except its atomic fields
	keeper   sync.WaitGroup // of the goroutine that runs keep

	encoders sync.Pool // of *encoder
	idle     sync.Pool // of *waiter, none of them in the table

	mu      sync.Mutex // guards the fields below; no other lock is taken under it
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
	// It is not derived from the socket's context: on Close, the connection sends a close frame first.
	c.ctx, c.cancel = context.WithCancelCause(context.Background())
	return c
}

// serve reads until the connection ends, and returns why it ended. The end of ctx closes it with a
// close frame. A call of end must follow.
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
		decode, handle := frame.Decode, c.dispatch
		if m.isTooLarge() {
			decode, handle = frame.DecodeHead, func(f *frame.Frame) { c.leaveOut(f, m.limit) }
		}
		f, err := decode(m.data, m.binary)
		if err != nil {
			return fmt.Errorf("%w: %w", errUnreadable, err)
		}
		handle(&f)
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

// keep sends heartbeats until the connection ends. When ctx ends, it closes the connection.
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

// heartbeat sends a heartbeat and ends the connection when the answer is late. The answer is not late
// while a large message is coming in, since it may be behind that; the next heartbeat goes out all the
// same, for the server drops a silent client. The time counts from when the heartbeat was written:
// large messages of ours before it have a deadline of their own.
func (c *conn) heartbeat(ctx context.Context) {
	ref := c.nextRef()
	w, err := c.request(ctx, nil, ref, frame.Heartbeat, nil)
	if err != nil {
		return // the connection ends already
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

// goodbye sends a close frame. The reader ends by itself when the server answers it, or a moment later.
func (c *conn) goodbye(cause error) {
	c.cancel(cause)
	deadline := time.Now().Add(farewell)
	_ = c.ws.SetReadDeadline(deadline)
	message := websocket.FormatCloseMessage(websocket.CloseNormalClosure, "")
	if err := c.ws.WriteControl(websocket.CloseMessage, message, deadline); err != nil {
		_ = c.ws.Close()
	}
}

// fail ends the connection. Only the first cause counts.
func (c *conn) fail(cause error) {
	c.cancel(cause)
	_ = c.ws.Close()
}

// end answers everyone who waits on the connection, then waits for the keeper, which may be one of
// them.
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

// dispatch hands a frame to the waiter or the topic that it is for. It runs on the reader's goroutine
// and never blocks.
func (c *conn) dispatch(f *frame.Frame) {
	if f.IsReply() {
		w := c.take(f.Ref)
		if w == nil {
			c.stats.unknown.Add(1)
			return
		}
		a := answer{joinRef: f.JoinRef, status: f.Status, payload: c.inbox.own(f.Payload), binary: f.Binary}
		if w.join != nil && w.join.ref == f.Ref { // before any message that comes under it
			w.join.Response, w.join.answered = a.payload, true
		}
		w.answer <- a
		return
	}
	j := c.joined(f)
	if j == nil {
		return
	}
	switch f.Event {
	case frame.Error:
		c.lose(j, ErrCrashed)
	case frame.Close:
		c.lose(j, ErrEnded)
	default:
		if !c.hasRoom(len(f.Event) + len(f.Payload)) {
			j.topic.miss()
			return
		}
		// The clone keeps the event without the rest of the message's head.
		m := Message{Event: strings.Clone(f.Event), Payload: c.inbox.own(f.Payload), Binary: f.Binary}
		if j.answered { // otherwise nothing was agreed on with it yet
			m.Join = j
		}
		j.topic.deliver(m)
	}
}

// limitOf returns the size limit of a message with this beginning: that of the event which it answers.
func (c *conn) limitOf(beginning []byte, binary bool) int64 {
	event := ""
	if f, err := frame.DecodeHead(beginning, binary); err == nil && f.IsReply() {
		c.mu.Lock()
		if w := c.waiters[f.Ref]; w != nil {
			event = w.event
		}
		c.mu.Unlock()
	}
	limit, found := c.cfg.ReadLimits[event]
	if !found {
		limit, found = c.cfg.ReadLimits[""]
	}
	if !found {
		return c.cfg.ReadLimit
	}
	return min(max(limit, headSize), c.cfg.ReadLimit)
}

// leaveOut dispatches a message that is too large to be kept; f is its head. It answers the waiter
// before the rest of the message has come.
func (c *conn) leaveOut(f *frame.Frame, limit int64) {
	switch {
	case f.IsReply():
		if w := c.take(f.Ref); w != nil {
			tooLarge := &AnswerTooLargeError{Topic: f.Topic, Event: w.event, Limit: limit}
			if w.join != nil {
				tooLarge.Topic = w.join.topic.name
			}
			w.answer <- answer{lost: tooLarge}
			return
		}
		c.stats.unknown.Add(1)
	case f.Event == frame.Error, f.Event == frame.Close: // their payload does not matter
		c.dispatch(f)
	default:
		if j := c.joined(f); j != nil {
			j.topic.miss()
		}
	}
}

// joined returns the join that a frame belongs to. It returns nil, and counts the frame, if that is for
// no join or for an earlier one. Broadcasts have no join_ref.
func (c *conn) joined(f *frame.Frame) *Join {
	c.mu.Lock()
	j := c.joins[f.Topic]
	c.mu.Unlock()
	switch {
	case f.Event == frame.Close && (j == nil || f.JoinRef != "" && f.JoinRef != j.ref):
		return nil // as after each leave, and after each join that a later one has replaced
	case j == nil:
		c.stats.unknown.Add(1)
		return nil
	case f.JoinRef != "" && f.JoinRef != j.ref:
		c.stats.stale.Add(1)
		return nil
	}
	return j
}

const (
	// maxWaiting is how many bytes of messages may wait for the readers of all topics of a connection
	// together. Counted in messages alone, a hundred topics could hold hundreds of gigabytes.
	maxWaiting = 16 << 20
	// light is the size up to which a message always has room, so that the usual message needs no look
	// at the other topics.
	light = 4 << 10
)

// backlog has the sizes of the messages that were sent into a Go channel, the oldest first. It may
// still have some that were received since. Only the sender uses it.
type backlog []int

// add notes the size of a message that was sent; room is the capacity of the Go channel.
func (b *backlog) add(size, room int) {
	if len(*b) >= 2*room {
		*b = append((*b)[:0], b.last(room)...)
	}
	*b = append(*b, size)
}

func (b *backlog) last(n int) []int { return (*b)[max(len(*b)-n, 0):] }

// bytes returns the sum of the last n sizes, where n is how many messages still wait.
func (b *backlog) bytes(n int) (sum int) {
	for _, size := range b.last(n) {
		sum += size
	}
	return sum
}

// hasRoom reports whether a message of this size may wait together with all that wait already. It
// always may wait alone.
func (c *conn) hasRoom(size int) bool {
	if size <= light {
		return true
	}
	waiting := 0
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, j := range c.joins {
		waiting += j.topic.backlog.bytes(len(j.topic.messages))
	}
	return waiting == 0 || waiting+size <= maxWaiting
}
