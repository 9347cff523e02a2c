package channel

import (
	"context"
	"errors"
	"time"

	"github.com/phxworker/phxworker/channel/frame"
)

// Join is one join of a topic, from the server's ok until it is lost. Use it for what was agreed on
// with this very join: an earlier one may have been answered differently, or by another server.
type Join struct {
	// Epoch is the number of the join, from 1, and Asked when it was asked for.
	Epoch int
	Asked time.Time
	// Response is what the server answered, as JSON text. To be read only.
	Response []byte

	topic *Topic
	conn  *conn
	ref   frame.Ref
	// answered says that the server's ok has come. Only the connection's reader uses it.
	answered bool
	// lost is closed when the join is lost. The fields below are set before.
	lost       chan struct{}
	cause      error     // why it was lost
	ended      time.Time // when
	unanswered int       // pushes that were left without an answer
}

// Push is [Topic.Push] under this join only: once it is lost, nothing is sent.
func (j *Join) Push(ctx context.Context, event string, payload any) (Reply, error) {
	return j.topic.pushUnder(ctx, j, event, payload)
}

// Lost returns a channel that is closed when the join is lost.
func (j *Join) Lost() <-chan struct{} { return j.lost }

// PushWithin is [Join.Push] with a limit on the wait for the answer, which begins when the message was
// written. The wait goes on while a message of the server is coming in. A channel that has not answered
// by then probably hangs, so the topic is joined anew: a Phoenix server then ends that channel. The
// errors of this push and of all others in flight wrap [ErrOutcomeUnknown] and [ErrUnanswered].
func (j *Join) PushWithin(ctx context.Context, answer time.Duration, event string, payload any) (Reply, error) {
	reply, err := j.topic.push(ctx, j, answer, event, payload)
	if errors.Is(err, ErrUnanswered) {
		j.conn.lose(j, ErrUnanswered)
	}
	if err != nil {
		return Reply{}, j.topic.pushing(event, err)
	}
	return reply, nil
}

// Renew makes the topic join anew, as PushWithin does when no answer comes. Call it before you send an
// event again that may have arrived.
func (j *Join) Renew() { j.conn.lose(j, ErrUnanswered) }

// End returns when and why the join was lost: [ErrCrashed], [ErrEnded], [ErrLeft], the end of the
// connection, or that the server does not know the join any more. The error is nil until then.
func (j *Join) End() (time.Time, error) {
	select {
	case <-j.lost:
		return j.ended, j.cause
	default:
		return time.Time{}, nil
	}
}

// Unanswered returns how many pushes had no answer when the join was lost; 0 until then. If there was
// only one and the channel has crashed, it has crashed over that push.
func (j *Join) Unanswered() int {
	select {
	case <-j.lost:
		return j.unanswered
	default:
		return 0
	}
}

func (j *Join) end(cause error, unanswered int) {
	j.ended, j.cause, j.unanswered = time.Now(), cause, unanswered
	close(j.lost)
}

// live reports whether a push may succeed: the join is not lost, and its connection does not end.
func (j *Join) live() bool {
	_, lost := j.End()
	return lost == nil && j.conn.ctx.Err() == nil
}

// join joins a topic. It returns the join also with an error, for the server may have acted on it. The
// error is a *RefusedError or that of a round trip.
func (c *conn) join(ctx context.Context, t *Topic) (*Join, error) {
	j := &Join{Epoch: t.current().epoch + 1, Asked: time.Now(), topic: t, conn: c, ref: c.nextRef(), lost: make(chan struct{})}
	a, err := c.roundTrip(ctx, j, j.ref, c.cfg.JoinTimeout, frame.Join, t.payload)
	if err != nil {
		return j, err
	}
	if a.status != frame.OK {
		refused := &RefusedError{Topic: t.name, Event: frame.Join, Response: a.payload}
		c.lose(j, refused)
		return j, refused
	}
	return j, nil
}

// leave leaves a topic, waits for the server's answer, and then ends the join with the cause. The
// answer does not matter: Phoenix says ok even if the topic is not joined, and lightning-mock sends an
// error.
func (c *conn) leave(ctx context.Context, j *Join, cause error) {
	ctx, cancel := context.WithTimeoutCause(ctx, c.cfg.JoinTimeout, errLeaveTimeout)
	defer cancel()
	_, _ = c.roundTrip(ctx, j, c.nextRef(), 0, frame.Leave, nil)
	c.lose(j, cause)
}

// lose ends a join and everything that waits for a reply under it, unless it has ended already.
func (c *conn) lose(j *Join, cause error) {
	c.mu.Lock()
	if c.joins[j.topic.name] != j {
		c.mu.Unlock()
		return
	}
	delete(c.joins, j.topic.name)
	var orphans []*waiter
	for ref, w := range c.waiters {
		if w.join == j {
			delete(c.waiters, ref)
			orphans = append(orphans, w)
		}
	}
	c.mu.Unlock()
	j.end(cause, len(orphans))
	for _, w := range orphans {
		w.answer <- answer{lost: cause}
	}
}
