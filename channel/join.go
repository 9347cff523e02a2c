package channel

import (
	"context"

	"github.com/phxworker/phxworker/channel/frame"
)

// join is one join of a topic on one connection.
type join struct {
	topic *Topic
	conn  *conn
	ref   frame.Ref
	// lost is closed when the join counts no more; cause, set before, is why.
	lost  chan struct{}
	cause error
	// response is what the server answered; set before the join is published.
	response []byte
}

// Join is one join of a topic, from the server's ok until it is lost. It is for
// what was agreed on with this very join: a server may have answered the one
// before differently, and need not be the same.
type Join struct {
	// Epoch is the number of the join, from 1.
	Epoch int
	// Response is what the server answered, as JSON text. To be read only.
	Response []byte

	join *join
}

// Push is [Topic.Push] under this join alone: once it is lost, nothing is sent.
func (j *Join) Push(ctx context.Context, event string, payload any) (Reply, error) {
	return j.join.topic.pushUnder(ctx, j.join, event, payload)
}

// Lost returns a channel that is closed when the join counts no more.
func (j *Join) Lost() <-chan struct{} { return j.join.lost }

func (j *join) end(cause error) {
	j.cause = cause
	close(j.lost)
}

// live reports whether the join still counts.
func (j *join) live() bool {
	select {
	case <-j.lost:
		return false
	default:
		return true
	}
}

// join joins a topic. It returns the join also when it fails, for a join that
// was sent may have come into effect. Its error is a *RefusedError or that of
// a round trip.
func (c *conn) join(ctx context.Context, t *Topic) (*join, error) {
	j := &join{topic: t, conn: c, ref: c.nextRef(), lost: make(chan struct{})}
	ctx, cancel := context.WithTimeoutCause(ctx, c.cfg.JoinTimeout, errJoinTimeout)
	defer cancel()
	a, err := c.roundTrip(ctx, j, j.ref, frame.Join, t.payload)
	if err != nil {
		return j, err
	}
	if a.status != frame.OK {
		refused := &RefusedError{Topic: t.name, Event: frame.Join, Response: a.payload}
		c.lose(j, refused)
		return j, refused
	}
	j.response = a.payload
	return j, nil
}

// leave tells the server that a join is over for the cause given, and waits for
// its answer, after which nothing waits under the join any more. What
// the server answers does not matter: Phoenix says ok also to the leave of
// a topic that is not joined, and lightning-mock answers with an error.
func (c *conn) leave(ctx context.Context, j *join, cause error) {
	ctx, cancel := context.WithTimeoutCause(ctx, c.cfg.JoinTimeout, errJoinTimeout)
	defer cancel()
	_, _ = c.roundTrip(ctx, j, c.nextRef(), frame.Leave, nil)
	c.lose(j, cause)
}

// lose ends a join, and what waits for a reply under it, unless it has
// ended already.
func (c *conn) lose(j *join, cause error) {
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
	j.end(cause)
	for _, w := range orphans {
		w.answer <- answer{lost: cause}
	}
}
