package channel

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/phxworker/phxworker/channel/frame"
)

// unmatched is Phoenix's reason for refusing a push on a topic that the connection has not joined.
const unmatched = "unmatched topic"

// Topic is a joined channel. It joins again by itself on every new connection.
type Topic struct {
	socket  *Socket
	name    string
	payload any
	kept    bool // no answer of the server ends the topic
	// ctx ends when the topic has to end: with ErrLeft, with the cause that ended the wait for its
	// first join, or with the socket.
	ctx      context.Context
	cancel   context.CancelCauseFunc
	messages chan Message
	hurry    chan struct{} // ends the wait before the next join; send to it without blocking
	missed   int           // messages since the last one delivered; only the connection's reader uses it
	backlog  backlog       // only the connection's reader uses it
	done     chan struct{}

	mu    sync.Mutex // guards state; no other lock is taken under it
	state membership
}

// membership is how a topic stands with the server.
type membership struct {
	join    *Join         // nil unless joined; pushes go out under it
	epoch   int           // how often the topic was joined
	trouble error         // why the last join failed or was lost; nil while joined
	err     error         // why the topic has ended; nil before
	changed chan struct{} // closed when this is out of date
}

// Join joins a topic: it waits for a connection and for the server's ok. The payload becomes JSON anew
// at every join, as that of a push does, so that a json.Marshaler can give each join a value of its
// own.
//
// The context bounds this first join only; the topic lives until it is left. When the context ends,
// Join leaves the topic in case the server has already said ok. The error is then the context's cause,
// with the latest reason why there was no join, such as a [*DialError].
//
// Join returns a [*DialError] at once when the server has refused the parameters of the latest dial, as
// for a bad token (401 or 403; see [Config.RetryRefused]). The socket goes on trying with fresh
// parameters, so you may call Join again. Otherwise the error is a [*RefusedError] when the server
// refused the join, [ErrClosed], [ErrTaken], or one about the payload.
func (s *Socket) Join(ctx context.Context, name string, payload any) (*Topic, error) {
	doing := fmt.Sprintf("channel: join %q", name)
	t, err := s.open(ctx, name, payload)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", doing, s.explain(err, nil))
	}
	for {
		now := t.current()
		switch {
		case now.err != nil:
			<-t.done
			return nil, described(doing, now.err)
		case now.join != nil:
			return t, nil
		}
		select {
		case <-now.changed:
		case <-ctx.Done():
			t.cancel(context.Cause(ctx))
			return nil, fmt.Errorf("%s: %w", doing, s.explain(context.Cause(ctx), now.trouble))
		}
	}
}

// Keep returns a topic at once and joins it in the background. It joins again whenever a join is
// refused or lost, until the topic is left or the socket is closed. [Topic.Ready] waits for the join,
// and the log says why there is none. The payload is as for [Socket.Join]. The error is [ErrClosed] or
// [ErrTaken].
func (s *Socket) Keep(name string, payload any) (*Topic, error) {
	t, previous, err := s.tryOpen(name, payload, true)
	if previous != nil {
		err = ErrTaken
	}
	if err != nil {
		return nil, fmt.Errorf("channel: keep %q joined: %w", name, err)
	}
	return t, nil
}

// open makes a topic and starts it. If a topic of that name is being left, it waits for the end of
// that.
func (s *Socket) open(ctx context.Context, name string, payload any) (*Topic, error) {
	for {
		t, previous, err := s.tryOpen(name, payload, false)
		if previous == nil {
			return t, err
		}
		if previous.ctx.Err() == nil {
			return nil, ErrTaken
		}
		select {
		case <-previous.done:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// tryOpen is open that does not wait: it returns the previous topic of the name, if there is one.
func (s *Socket) tryOpen(name string, payload any, kept bool) (t, previous *Topic, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.status.State == Closed {
		return nil, nil, ErrClosed
	}
	if previous := s.topics[name]; previous != nil {
		return nil, previous, nil
	}
	t = &Topic{
		socket: s, name: name, payload: payload, kept: kept,
		messages: make(chan Message, s.cfg.PushBuffer),
		hurry:    make(chan struct{}),
		done:     make(chan struct{}),
		state:    membership{changed: make(chan struct{})},
	}
	t.ctx, t.cancel = context.WithCancelCause(s.ctx)
	s.topics[name] = t
	s.running.Go(t.run)
	return t, nil, nil
}

// Name returns the topic's name.
func (t *Topic) Name() string { return t.name }

// Push sends an event and waits for the reply. The payload becomes JSON, and a nil payload an empty
// object. A json.RawMessage is sent as it is, and a [Binary] in a binary frame. Bytes of JSON that are
// no UTF-8 become U+FFFD.
//
// The error is of one of the three kinds of the package comment: [ErrNotSent] (also [*TooLargeError]
// and [ErrPayload]), [ErrOutcomeUnknown], or [*RefusedError]. The first two also wrap their cause, such
// as the context's.
func (t *Topic) Push(ctx context.Context, event string, payload any) (Reply, error) {
	now := t.current()
	if now.err != nil {
		return Reply{}, t.pushing(event, notSent(now.err))
	}
	return t.pushUnder(ctx, now.join, event, payload)
}

// PushWhenReady waits until the topic is joined and then pushes as [Topic.Push] does. If the join is
// lost before the push was sent, it waits for the next join. It never sends twice: the caller decides
// what to do after an unknown outcome. Its errors are those of Push, with [ErrNotSent] when ctx or the
// topic ends before the push was sent.
func (t *Topic) PushWhenReady(ctx context.Context, event string, payload any) (Reply, error) {
	for {
		j, err := t.ready(ctx)
		if err != nil {
			return Reply{}, t.pushing(event, notSent(err))
		}
		reply, err := t.pushUnder(ctx, j, event, payload)
		if err == nil || !errors.Is(err, ErrNotSent) || errors.Is(err, ErrPayload) || errors.As(err, new(*TooLargeError)) {
			return reply, err
		}
		select { // one of these is why it was not sent; the last two end the wait
		case <-j.lost:
		case <-j.conn.ctx.Done():
		case <-t.ctx.Done():
			return Reply{}, t.pushing(event, notSent(context.Cause(t.ctx)))
		case <-ctx.Done():
			return Reply{}, err
		}
	}
}

// pushUnder pushes under a join, which may be nil.
func (t *Topic) pushUnder(ctx context.Context, j *Join, event string, payload any) (Reply, error) {
	reply, err := t.push(ctx, j, 0, event, payload)
	if err != nil {
		return Reply{}, t.pushing(event, err)
	}
	return reply, nil
}

func (t *Topic) pushing(event string, err error) error {
	return described(fmt.Sprintf("channel: push %q on %q", event, t.name), err)
}

func (t *Topic) push(ctx context.Context, j *Join, answer time.Duration, event string, payload any) (Reply, error) {
	if j == nil || t.ctx.Err() != nil {
		return Reply{}, notSent(errNotJoined)
	}
	a, err := j.conn.roundTrip(ctx, j, j.conn.nextRef(), answer, event, payload)
	switch {
	case err != nil:
		return Reply{}, err
	case a.status == frame.OK:
		return Reply{Response: a.payload, Binary: a.binary}, nil
	}
	refused := &RefusedError{Topic: t.name, Event: event, Response: json.RawMessage(a.payload)}
	// Phoenix itself answers without a join_ref, an application with it.
	if a.joinRef == "" && refused.Reason() == unmatched {
		j.conn.lose(j, errUnmatched)
		return Reply{}, notSent(errUnmatched)
	}
	return Reply{}, refused
}

// Ready waits until the topic is joined, and returns the join. A new join means that the one before was
// lost, and with it the messages that the server sent in between. This join may be lost at any time,
// too; a push then says so.
//
// The error wraps the context's cause, or [Topic.Err] if the topic has ended.
func (t *Topic) Ready(ctx context.Context) (*Join, error) {
	j, err := t.ready(ctx)
	if err != nil {
		return nil, fmt.Errorf("channel: wait for %q to be joined: %w", t.name, err)
	}
	return j, nil
}

func (t *Topic) ready(ctx context.Context) (*Join, error) {
	for {
		now := t.current()
		switch {
		case now.err != nil:
			return nil, now.err
		case now.join != nil && now.join.live():
			return now.join, nil
		}
		select {
		case <-now.changed:
		case <-ctx.Done():
			return nil, t.socket.explain(context.Cause(ctx), now.trouble)
		}
	}
}

// JoinNow ends the wait before the next join, if the topic waits. Call it when the reason why the topic
// was refused or crashed has probably passed. It never blocks.
func (t *Topic) JoinNow() {
	select {
	case t.hurry <- struct{}{}:
	default:
	}
}

// Current returns the current join, nil if there is none, and a channel that is closed when that may
// have changed.
func (t *Topic) Current() (*Join, <-chan struct{}) {
	now := t.current()
	if now.join == nil || !now.join.live() {
		return nil, now.changed
	}
	return now.join, now.changed
}

// Messages returns the channel of what the server pushes on the topic, in wire order. It is bounded by
// [Config.PushBuffer] and in bytes. While it is full, new messages are dropped, and the next one that
// is delivered has their number in Message.Missed. It is never closed; see [Topic.Done].
func (t *Topic) Messages() <-chan Message { return t.messages }

// Done returns a channel that is closed when the topic has ended for good.
func (t *Topic) Done() <-chan struct{} { return t.done }

// Err returns why the topic has ended, nil before: [ErrLeft], [ErrEnded] when
// the server closed it, a [*RefusedError] when the server refused to let it
// join again, or [ErrClosed] when the socket was closed.
func (t *Topic) Err() error { return t.current().err }

// Leave leaves the topic for good. No push goes out any more. Pushes that wait for a reply end when the
// server answers the leave, whatever it answers. Leave may be called again and concurrently.
//
// The error is the context's cause if that ends first. The leave then goes on in the background, for
// the JoinTimeout at most.
func (t *Topic) Leave(ctx context.Context) error {
	t.cancel(ErrLeft)
	select {
	case <-t.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("channel: leave %q: %w", t.name, context.Cause(ctx))
	}
}

// deliver passes a message to the reader of the topic, or counts it as missed.
func (t *Topic) deliver(m Message) {
	m.Missed = t.missed
	select {
	case t.messages <- m:
		t.missed = 0
		t.backlog.add(len(m.Event)+len(m.Payload), cap(t.messages))
	default:
		t.miss()
	}
}

// miss counts a message that is not delivered.
func (t *Topic) miss() {
	t.missed++
	t.socket.stats.missed.Add(1)
}

// joinCrashed is the reason Phoenix gives when the join raised on the server.
const joinCrashed = "join crashed"

// run keeps the topic joined until it ends. Nothing else changes the topic's state.
func (t *Topic) run() {
	err := t.keepJoined()
	t.socket.forget(t)
	t.moveTo(nil, err, err)
	close(t.done)
	t.cancel(err)
}

// keepJoined joins again and again, until the topic ends. It returns why it ended.
func (t *Topic) keepJoined() error {
	pace := newRetries(&t.socket.cfg)
	log := t.socket.cfg.Logger.With("topic", t.name)
	for {
		// A refused dial ends only the wait for the first join. Nobody waits for a later one, and a
		// token that was good once may be good again.
		first := t.current().epoch == 0 && !t.kept
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
		level := slog.LevelWarn
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
			if errors.As(err, new(*AnswerTooLargeError)) { // the server may have said ok
				c.leave(t.ctx, j, err)
			}
			if !t.kept {
				return err
			}
			level = slog.LevelError // somebody may have to do something about it
		}
		c.lose(j, err)
		t.moveTo(nil, err, nil)
		log.Log(t.ctx, level, "a topic is not joined, or not any more; joining it", "error", err)
		pace.wait(t.ctx, t.hurry)
	}
}

// stay publishes a join, waits until it is lost, and returns why.
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

// worthRetrying reports whether, after err, another join may succeed on the same connection. again says
// that the topic was joined before.
func worthRetrying(err error, again bool) bool {
	var refused *RefusedError
	var tooLarge *TooLargeError
	switch {
	case errors.As(err, &refused):
		// After a reconnect, new topics may join before the earlier ones and take their room, so an
		// earlier topic waits for room.
		return refused.Reason() == joinCrashed || (again && refused.NoRoom())
	case errors.As(err, &tooLarge), errors.As(err, new(*AnswerTooLargeError)), errors.Is(err, ErrPayload), errors.Is(err, ErrEnded):
		return false
	}
	return true
}

// moveTo is the only place where the topic's state changes. With a join it is joined, with an end it
// has ended, and with neither it is joining.
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
