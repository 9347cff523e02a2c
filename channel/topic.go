package channel

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/phxworker/phxworker/channel/frame"
)

// unmatched is the reason Phoenix gives when a push is for a topic that the
// connection has not joined.
const unmatched = "unmatched topic"

// Topic is a joined channel. It joins again by itself on every new connection.
type Topic struct {
	socket  *Socket
	name    string
	payload any
	// kept is a topic that no answer of the server's ends.
	kept bool
	// ctx ends when the topic is to end: with ErrLeft, with the cause for which
	// its first join was given up, or with the socket.
	ctx      context.Context
	cancel   context.CancelCauseFunc
	messages chan Message
	// hurry ends the wait before the next join. Sending to it must not block.
	hurry chan struct{}
	// missed counts since the last message delivered. It and the backlog are
	// used by the reader only.
	missed  int
	backlog backlog
	done    chan struct{}

	mu    sync.Mutex // a leaf; guards what follows
	state membership
}

// membership is how a topic stands with the server.
type membership struct {
	join    *Join         // the join that pushes go out under; nil unless joined
	epoch   int           // how often the topic was joined
	trouble error         // why the last join failed or was lost; nil while joined
	err     error         // why the topic has ended; nil before
	changed chan struct{} // closed when this is out of date
}

// Join joins a topic: it waits for a connection and for the server's ok. The
// payload becomes JSON, as that of a push does, anew at every join; so a
// json.Marshaler can give each join a value of its own.
//
// The context bounds this first join only; the topic lives until it is left. Its
// end gives the join up, and leaves the topic in case the server had let us in.
// The error is then the context's cause, with the latest reason why the
// join had not come about: a [*DialError] of the socket, for example.
//
// Join returns at once a [*DialError] when the server refused the parameters of the
// latest dial, as for a bad token (401 or 403; see [Config.RetryRefused]): the socket goes
// on trying, with fresh parameters, so that Join may be called again. Otherwise the error is a
// [*RefusedError] when the server refused the join, [ErrClosed], [ErrTaken], or one about
// the payload.
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

// Keep returns a topic that is joined as soon as it can be, and again whatever the server answers to a
// join, or ends it with: [Topic.Ready] waits for the join, and the log says why there is none. It ends
// only when it is left or the socket is closed. The payload is that of [Socket.Join]. The error is
// [ErrClosed] or [ErrTaken].
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

// open makes the topic and starts it. The name is free again once the previous
// topic of that name has been left.
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

// Push sends an event and waits for the reply. The payload becomes JSON, a nil
// one an empty object; a json.RawMessage is sent as it is, and a [Binary] in a
// binary frame. Bytes of JSON that are no UTF-8 become U+FFFD.
//
// Its error is one of three kinds, see the package comment: [ErrNotSent], among
// them [*TooLargeError] and [ErrPayload]; [ErrOutcomeUnknown]; or a
// [*RefusedError]. The first
// two also wrap what caused them, such as the context's cause.
func (t *Topic) Push(ctx context.Context, event string, payload any) (Reply, error) {
	now := t.current()
	if now.err != nil {
		return Reply{}, t.pushing(event, notSent(now.err))
	}
	return t.pushUnder(ctx, now.join, event, payload)
}

// PushWhenReady waits until the topic is joined and then does what [Topic.Push] does. If the join
// is lost before the push was sent, it waits for the next one. It never sends twice: what to
// do after an unknown outcome is the caller's decision. Its errors are those of Push; it is
// [ErrNotSent] when ctx or the topic ends before the push could be sent.
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
		select { // it was not sent because one of these has happened, or is about to
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

// Ready waits until the topic is joined, and returns the join. Another one than
// before tells that the join was lost in between, and what the server sent meanwhile
// with it. This one may be lost again at any time; a push then says so.
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

// JoinNow ends the wait before the next join, if there is one. Call it when what kept the
// topic from being joined, or made it crash, has probably passed. It never blocks.
func (t *Topic) JoinNow() {
	select {
	case t.hurry <- struct{}{}:
	default:
	}
}

// Current returns the join that counts just now, nil if there is none, and a
// channel that is closed when that may have changed.
func (t *Topic) Current() (*Join, <-chan struct{}) {
	now := t.current()
	if now.join == nil || !now.join.live() {
		return nil, now.changed
	}
	return now.join, now.changed
}

// Messages returns what the server pushes on the topic, in wire order. It is
// bounded by [Config.PushBuffer], and in bytes: while it is full, new messages are dropped,
// and the next one delivered tells how many in Message.Missed. It is never
// closed; [Topic.Done] tells the end.
func (t *Topic) Messages() <-chan Message { return t.messages }

// Done returns a channel that is closed when the topic has ended for good.
func (t *Topic) Done() <-chan struct{} { return t.done }

// Err returns why the topic has ended, nil before: [ErrLeft], [ErrEnded] when
// the server closed it, a [*RefusedError] when the server refused to let it
// join again, or [ErrClosed] when the socket was closed.
func (t *Topic) Err() error { return t.current().err }

// Leave ends the topic: no push goes out any more, and those waiting for a reply
// end as the server answers the leave, whatever it answers. It may be called
// again and concurrently.
//
// The error is the context's cause when that ended first; leaving then goes on
// in the background, for the JoinTimeout at most.
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

// miss counts a message that the reader of the topic does not get.
func (t *Topic) miss() {
	t.missed++
	t.socket.stats.missed.Add(1)
}

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
		asked := t.current().epoch == 0 && !t.kept
		c, err := t.socket.await(t.ctx, asked && !t.socket.cfg.RetryRefused)
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
			if !t.kept {
				return err
			}
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
