package channel

import (
	"context"
	"errors"
	"time"
)

// joinCrashed is the reason Phoenix gives when the join raised on the server.
const joinCrashed = "join crashed"

// run joins, again and again, until the topic ends. It alone changes the
// topic's state.
func (t *Topic) run() {
	err := t.keepJoined()
	t.socket.forget(t)
	t.moveTo(nil, err, err)
	close(t.done)
	t.cancel(err)
}

// keepJoined returns why the topic ended.
func (t *Topic) keepJoined() error {
	pace := newRetries(&t.socket.cfg)
	log := t.socket.cfg.Logger.With("topic", t.name)
	for {
		// Whoever waits for the first join is told of a refusal. A topic that was joined has
		// nobody who waits, and a token that was good once may be again.
		first := t.current().epoch == 0
		c, err := t.socket.await(t.ctx, first && !t.socket.cfg.RetryRefused)
		if err != nil {
			return err
		}
		j, err := c.join(t.ctx, t)
		if err == nil {
			joined := time.Now()
			err = t.stay(j)
			if time.Since(joined) >= steady {
				pace.reset()
			}
		}
		switch {
		case t.ctx.Err() != nil:
			cause := context.Cause(t.ctx)
			c.leave(t.socket.ctx, j, cause)
			return cause
		case c.ctx.Err() != nil:
			// The topic is not at fault; the socket paces the next attempt.
			<-c.done
			continue
		case !worthRetrying(err, t.current().epoch > 0):
			if errors.As(err, new(*AnswerTooLargeError)) { // it may have let us in
				c.leave(t.ctx, j, err)
			}
			return err
		}
		c.lose(j, err)
		t.moveTo(nil, err, nil)
		log.Warn("a topic is not joined, or not any more; joining it", "error", err)
		pace.wait(t.ctx, t.hurry)
	}
}

// stay publishes a join and returns why it was lost.
func (t *Topic) stay(j *Join) error {
	t.moveTo(j, nil, nil)
	var err error
	select {
	case <-j.lost:
		err = j.cause
	case <-t.ctx.Done():
		err = context.Cause(t.ctx)
	}
	t.moveTo(nil, err, nil)
	return err
}

// worthRetrying reports whether a join that failed or was lost may yet come
// about on the same connection. again tells that the topic was joined before.
func worthRetrying(err error, again bool) bool {
	var refused *RefusedError
	var tooLarge *TooLargeError
	switch {
	case errors.As(err, &refused):
		// After a reconnect, the joins of new topics can be ahead of those that
		// were there before; a topic that had its place waits for one.
		return refused.Reason() == joinCrashed || (again && refused.NoRoom())
	case errors.As(err, &tooLarge), errors.As(err, new(*AnswerTooLargeError)), errors.Is(err, ErrPayload), errors.Is(err, ErrEnded):
		return false
	}
	return true
}

// moveTo is the only place where the topic's state changes: to joined with a
// join, to ended with an end, and to joining without either.
func (t *Topic) moveTo(j *Join, trouble, end error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if j != nil {
		t.state.epoch = j.Epoch
	}
	t.state.join, t.state.trouble, t.state.err = j, trouble, end
	close(t.state.changed)
	t.state.changed = make(chan struct{})
}

func (t *Topic) current() membership {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.state
}

// forget frees the topic's name.
func (s *Socket) forget(t *Topic) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.topics[t.name] == t {
		delete(s.topics, t.name)
	}
}
