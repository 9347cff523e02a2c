package runner

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/phxworker/phxworker/channel"
)

// outbox holds the events of one run in order, each until the server has
// acknowledged or refused it, and sends them one at a time. The head is the
// one that is sent; those behind it are unsent.
type outbox struct {
	topic    *channel.Topic
	log      *slog.Logger
	limit    int           // bytes of events that may wait
	patience time.Duration // until an unanswered event is worth a warning
	// rejoined is called by the sender before the first event of a join that
	// is not the first.
	rejoined func(ctx context.Context)

	// epoch counts the joins of the topic; the sender's own.
	epoch int

	mu        sync.Mutex
	queue     []queued
	bytes     int
	delivered int
	closed    bool          // no more events will come
	dead      bool          // nothing will be sent any more
	work      chan struct{} // capacity one: the queue or closed changed
	room      chan struct{} // closed and replaced when events have left
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
		rejoined: func(context.Context) {},
		epoch:    1,
		work:     make(chan struct{}, 1), room: make(chan struct{}),
	}
}

// put appends an event. While the outbox is full it blocks, until there is
// room or done is closed; in the latter case the event is not taken.
func (o *outbox) put(done <-chan struct{}, e event, size int) {
	size += overhead
	for {
		o.mu.Lock()
		fits := o.bytes == 0 || o.bytes+size <= o.limit
		if fits || o.dead {
			if fits { // what does not fit into a dead outbox is lost with it
				o.appendLocked(e, size)
			}
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
	if o.closed {
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
// rest cannot be delivered: the topic has ended, or ctx. What was not
// acknowledged then stays, for undelivered to tell.
func (o *outbox) run(ctx context.Context) error {
	err := o.sendAll(ctx)
	if err != nil {
		o.die()
	}
	return err
}

func (o *outbox) sendAll(ctx context.Context) error {
	for {
		e, last := o.head()
		switch {
		case e != nil:
			refusal, err := o.deliver(ctx, e)
			if err != nil {
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
				return context.Cause(ctx)
			case <-o.topic.Done():
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
	o.delivered++
	o.makeRoomLocked()
}

// die lets go of those who wait for room that will not come.
func (o *outbox) die() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.dead = true
	o.makeRoomLocked()
}

func (o *outbox) makeRoomLocked() {
	close(o.room)
	o.room = make(chan struct{})
}

// undelivered returns the events that the server has not acknowledged, oldest
// first, and how many it has. It must not be called before run has returned.
func (o *outbox) undelivered() (rest []event, delivered int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, q := range o.queue {
		rest = append(rest, q.event)
	}
	return rest, o.delivered
}
