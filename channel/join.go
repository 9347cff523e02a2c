package channel

import (
	"context"
	"errors"
	"time"

	"github.com/phxworker/phxworker/channel/frame"
)

// Join is one join of a topic, from the server's ok until the join is lost. Use it for what
// was agreed on with this very join: the join before may have been answered differently,
// or by another server.
type Join struct {
	// Epoch is the number of the join, from 1, and Asked when it was asked for.
	Epoch int
	Asked time.Time
	// Response is what the server answered, as JSON text. To be read only.
	Response []byte

	topic *Topic
	conn  *conn
	ref   frame.Ref
	// answered is whether the server's ok has come; the reader's own.
	answered bool
	// lost is closed when the join counts no more; what follows, set before, is why and
	// when, and how many pushes were left without an answer.
	lost       chan struct{}
	cause      error
	ended      time.Time
	unanswered int
}

// Push is [Topic.Push] under this join alone: once it is lost, nothing is sent.
func (j *Join) Push(ctx context.Context, event string, payload any) (Reply, error) {
	return j.topic.pushUnder(ctx, j, event, payload)
}

// Lost returns a channel that is closed when the join counts no more.
func (j *Join) Lost() <-chan struct{} { return j.lost }

// PushWithin is [Join.Push] with a limit on the wait for the answer. The limit counts from
// when the message was written, and the wait goes on while a message of the server is coming
// in, which may take long on a slow link. A channel that has not answered by then is taken to
// hang: the join is given up, the errors of this push and of all others in flight wrap
// [ErrOutcomeUnknown] and [ErrUnanswered], and the topic is joined anew, which makes a Phoenix
// server end the channel that hangs.
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

// Renew gives the join up, as PushWithin does when no answer comes. Call it before you send
// again what may have arrived.
func (j *Join) Renew() { j.conn.lose(j, ErrUnanswered) }

// End returns when the join was lost and why: [ErrCrashed], [ErrEnded], [ErrLeft], that
// the server has it no more, or what became of the connection. The error is nil while the
// join counts.
func (j *Join) End() (time.Time, error) {
	select {
	case <-j.lost:
		return j.ended, j.cause
	default:
		return time.Time{}, nil
	}
}

// Unanswered returns how many pushes the join left without an answer when it was lost; 0
// while it counts. One that was alone when the channel crashed is what it crashed over.
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

// live reports whether a push may succeed: the join counts, and its connection is not about
// to end.
func (j *Join) live() bool {
	_, lost := j.End()
	return lost == nil && j.conn.ctx.Err() == nil
}

// join joins a topic. It returns the join also when it fails, for a join that
// was sent may have come into effect. Its error is a *RefusedError or that of
// a round trip.
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

// leave tells the server that a join is over for the cause given, and waits for
// its answer, after which nothing waits under the join any more. What
// the server answers does not matter: Phoenix says ok also to the leave of
// a topic that is not joined, and lightning-mock answers with an error.
func (c *conn) leave(ctx context.Context, j *Join, cause error) {
	ctx, cancel := context.WithTimeoutCause(ctx, c.cfg.JoinTimeout, errLeaveTimeout)
	defer cancel()
	_, _ = c.roundTrip(ctx, j, c.nextRef(), 0, frame.Leave, nil)
	c.lose(j, cause)
}

// lose ends a join, and what waits for a reply under it, unless it has
// ended already.
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
