package runner

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/phxworker/phxworker/channel"
)

// outbox sends the events of one run, one at a time and in order, and keeps
// each until the server has answered it.
type outbox struct {
	topic    *channel.Topic
	log      *slog.Logger
	limit    int           // bytes of events that may wait
	patience time.Duration // until an unanswered event is worth a warning

	mu     sync.Mutex
	queue  []queued // the head is the one being sent
	bytes  int
	closed bool          // no more events will come
	dead   bool          // nothing will be sent any more
	work   chan struct{} // capacity one: the queue or closed changed
	room   chan struct{} // closed and replaced when events have left
}

type queued struct {
	event event
	size  int
}

// overhead is counted for each event besides its variable part, so that many
// small ones fill the outbox as well.
const overhead = 256

func newOutbox(topic *channel.Topic, log *slog.Logger, limit int, patience time.Duration) *outbox {
	return &outbox{
		topic: topic, log: log, limit: limit, patience: patience,
		work: make(chan struct{}, 1), room: make(chan struct{}),
	}
}

// put appends an event. While the outbox is full it blocks, until there is
// room or done is closed; in the latter case the event is not taken.
func (o *outbox) put(done <-chan struct{}, e event, size int) {
	size += overhead
	for {
		o.mu.Lock()
		if o.bytes == 0 || o.bytes+size <= o.limit || o.dead {
			o.appendLocked(e, size)
			o.mu.Unlock()
			return
		}
		room := o.room
		o.mu.Unlock()
		select {
		case <-room:
		case <-done:
			return
		}
	}
}

// force appends an event however full the outbox is.
func (o *outbox) force(e event) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.appendLocked(e, overhead)
}

func (o *outbox) appendLocked(e event, size int) {
	if o.dead || o.closed {
		return
	}
	o.queue = append(o.queue, queued{e, size})
	o.bytes += size
	o.signalLocked()
}

// close tells that no more events will come; what an engine that outlived its
// run still reports is not taken.
func (o *outbox) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
	o.signalLocked()
}

func (o *outbox) signalLocked() {
	select {
	case o.work <- struct{}{}:
	default:
	}
}

// run sends until the outbox is closed and empty. It returns an error when the
// rest cannot be delivered: the topic has ended, or ctx.
func (o *outbox) run(ctx context.Context) error {
	for {
		e, last := o.head()
		switch {
		case e != nil:
			refusal, err := o.deliver(ctx, e)
			if err != nil {
				o.die()
				return err
			}
			e.settled(refusal)
			o.pop()
		case last:
			return nil
		default:
			select {
			case <-o.work:
			case <-ctx.Done():
				o.die()
				return context.Cause(ctx)
			case <-o.topic.Done():
				o.die()
				return o.topic.Err()
			}
		}
	}
}

// head returns the event to send next; without one, it reports whether that is
// the end.
func (o *outbox) head() (e event, last bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.queue) > 0 {
		return o.queue[0].event, false
	}
	return nil, o.closed
}

func (o *outbox) pop() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.bytes -= o.queue[0].size
	o.queue[0] = queued{} // let the event go, the array stays
	o.queue = o.queue[1:]
	close(o.room)
	o.room = make(chan struct{})
}

func (o *outbox) die() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.dead = true
	o.queue = nil
	o.bytes = 0
	close(o.room)
	o.room = make(chan struct{})
}

// deliver pushes one event until the server has answered it. A refusal is an
// answer; err is for what ends the outbox.
//
// The event is pushed again only when the join was lost: on a live join, a
// reply that is late must be waited for, because the first copy may have been
// applied and a second one would crash the topic.
func (o *outbox) deliver(ctx context.Context, e event) (refusal, err error) {
	pushedBefore := false
	for {
		err := o.push(ctx, e)
		var refused *channel.RefusedError
		var tooLarge *channel.TooLargeError
		switch {
		case err == nil:
			return nil, nil
		case errors.As(err, &refused) && pushedBefore:
			o.log.Info("event refused after it was sent again; the first copy had arrived", "event", e.name(), "error", err)
			return nil, nil
		case errors.As(err, &refused), errors.As(err, &tooLarge):
			o.log.Warn("the server does not take an event of the run", "event", e.name(), "error", err)
			return err, nil
		case errors.Is(err, channel.ErrOutcomeUnknown):
			pushedBefore = true
		case !errors.Is(err, channel.ErrNotSent):
			return nil, err
		}
		if _, err := o.topic.Ready(ctx); err != nil {
			return nil, err
		}
	}
}

func (o *outbox) push(ctx context.Context, e event) error {
	overdue := time.AfterFunc(o.patience, func() {
		o.log.Warn("the server has not answered yet; still waiting", "event", e.name(), "after", o.patience)
	})
	defer overdue.Stop()
	_, err := o.topic.Push(ctx, e.name(), e.payload())
	return err
}
