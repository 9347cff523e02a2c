package channel

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gorilla/websocket"

	"github.com/phxworker/phxworker/channel/frame"
)

// compressAbove is the size in bytes above which a message is compressed.
const compressAbove = 8 << 10

// answer ends the wait of a waiter: a reply, or the reason why none comes.
type answer struct {
	lost    error
	joinRef frame.Ref
	status  string
	payload []byte
	binary  bool
}

// waiter waits for one reply. Whoever takes it out of the connection's table answers it exactly once;
// the channel has room for that.
type waiter struct {
	join   *Join // nil for a heartbeat
	event  string
	answer chan answer
}

func (c *conn) nextRef() frame.Ref { return frame.NewRef(c.refs.Add(1)) }

// roundTrip sends a message and waits for the answer. With a join, the message is sent under it, and
// only while it is current; with the join's own ref, the message is the join itself. Without a join, it
// goes to the control topic. within bounds the wait once the message was written; 0 is no bound.
//
// The error is ErrNotSent or ErrOutcomeUnknown, and wraps the cause.
func (c *conn) roundTrip(ctx context.Context, j *Join, ref frame.Ref, within time.Duration, event string, payload any) (answer, error) {
	w, err := c.request(ctx, j, ref, event, payload)
	if err != nil {
		return answer{}, err
	}
	return c.reply(ctx, ref, w, within)
}

// request is the first half of a round trip: it writes the message. Its error is ErrNotSent; without an
// error, reply must follow.
func (c *conn) request(ctx context.Context, j *Join, ref frame.Ref, event string, payload any) (*waiter, error) {
	if ctx.Err() != nil {
		return nil, notSent(context.Cause(ctx))
	}
	f := frame.Frame{Ref: ref, Topic: frame.Control, Event: event}
	if j != nil {
		f.JoinRef, f.Topic = j.ref, j.topic.name
	}
	w := c.idle.Get().(*waiter)
	w.join, w.event = j, event
	if err := c.send(ctx, w, &f, payload); err != nil {
		c.idle.Put(w)
		return nil, err
	}
	return w, nil
}

// reply is the second half: it waits for the answer. Its error is ErrOutcomeUnknown.
func (c *conn) reply(ctx context.Context, ref frame.Ref, w *waiter, within time.Duration) (answer, error) {
	a, why := c.awaitAnswer(ctx, w, within)
	if why != nil {
		if c.take(ref) != nil {
			a.lost = why
		} else { // the answer came at this very moment, and counts
			a = <-w.answer
		}
	}
	c.idle.Put(w)
	if a.lost != nil {
		return answer{}, outcomeUnknown(a.lost)
	}
	return a, nil
}

// awaitAnswer returns the answer, or why the wait for it is over. An answer is not late while a message
// is coming in, which may be the answer or be before it. If that message stalls, a heartbeat ends the
// connection.
func (c *conn) awaitAnswer(ctx context.Context, w *waiter, within time.Duration) (a answer, why error) {
	var timer *time.Timer
	var late <-chan time.Time
	if within > 0 {
		timer = time.NewTimer(within)
		defer timer.Stop()
		late = timer.C
	}
	arrived := false // a message was coming in at the last look
	for {
		select {
		case a = <-w.answer:
			return a, nil
		case <-ctx.Done():
			return a, context.Cause(ctx)
		case <-late:
			arriving := c.inbox.arriving.Load()
			if !arriving && !arrived {
				return a, ErrUnanswered
			}
			arrived = arriving // the answer may be right behind
			timer.Reset(min(within, lookAgain))
		}
	}
}

// lookAgain is the time between two looks at whether a message is still coming in before a late answer.
// It is short, for that message may be small, such as the answer to a heartbeat.
const lookAgain = time.Second

// send encodes a message, registers w for the reply, and writes the message. On an error, which is
// always ErrNotSent, w is not registered any more.
func (c *conn) send(ctx context.Context, w *waiter, f *frame.Frame, payload any) error {
	e := c.encoders.Get().(*encoder)
	defer e.release(&c.encoders)
	message, err := e.encode(f, payload, c.cfg.MaxFrame)
	if err != nil {
		return err
	}
	if err := c.acquire(ctx); err != nil {
		return notSent(err)
	}
	defer c.release()
	if err := c.register(f.Ref, w); err != nil {
		return notSent(err)
	}
	if err := c.write(message, f.Binary); err != nil {
		// The server does not act on a part of a message.
		if c.take(f.Ref) == nil {
			<-w.answer
		}
		return notSent(err)
	}
	return nil
}

// acquire waits for the token; release must follow.
func (c *conn) acquire(ctx context.Context) error {
	select {
	case c.token <- struct{}{}: // most often nobody else is writing
		return nil
	default:
	}
	select {
	case c.token <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-c.ctx.Done():
		return context.Cause(c.ctx)
	}
}

func (c *conn) release() { <-c.token }

// write writes a message. The caller must have the token. An error ends the connection.
func (c *conn) write(message []byte, binary bool) error {
	kind := websocket.TextMessage
	if binary {
		kind = websocket.BinaryMessage
	}
	c.extendDeadline(len(message))
	c.ws.EnableWriteCompression(len(message) > compressAbove)
	err := c.ws.WriteMessage(kind, message)
	if err == nil {
		return nil
	}
	err = fmt.Errorf("writing failed: %w", err)
	// After a close frame, the reader will report why the server has closed, which is the better cause.
	if !errors.Is(err, websocket.ErrCloseSent) {
		c.fail(err)
	}
	return err
}

// slowest is the rate in bytes a second at which a connection must at least take a large message.
const slowest = 64 << 10

// extendDeadline sets the deadline of a write by its size, to at least 7/8 of the WriteTimeout from
// now. It does not move the deadline for each message, which would make a round trip a tenth longer.
// The caller must have the token.
func (c *conn) extendDeadline(size int) {
	allowed := c.cfg.WriteTimeout + time.Duration(size/slowest)*time.Second
	deadline := time.Now().Add(allowed)
	if d := deadline.Sub(c.deadline); d > c.cfg.WriteTimeout/8 || d < 0 {
		c.deadline = deadline
		_ = c.ws.SetWriteDeadline(deadline)
	}
}

// register puts w into the table before its message is written, for the reply may come before the write
// returns. The error says why the message must not be sent.
func (c *conn) register(ref frame.Ref, w *waiter) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	j := w.join
	switch {
	case c.ended:
		return context.Cause(c.ctx)
	case j == nil:
	case ref == j.ref:
		c.joins[j.topic.name] = j
	case c.joins[j.topic.name] != j:
		return errNotJoined
	}
	c.waiters[ref] = w
	return nil
}

// take removes the waiter for ref from the table. It returns nil if there is none.
func (c *conn) take(ref frame.Ref) *waiter {
	c.mu.Lock()
	defer c.mu.Unlock()
	w := c.waiters[ref]
	delete(c.waiters, ref)
	return w
}
