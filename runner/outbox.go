package runner

import (
	"context"
	"errors"
	"log/slog"
	"sync"

	"github.com/phxworker/phxworker/channel"
)

// outbox holds the events of one run in order, each until the server has
// acknowledged or refused it, and sends them one at a time. The head is the
// one that is sent; those behind it are unsent.
type outbox struct {
	topic    *channel.Topic
	log      *slog.Logger
	limit    int // bytes of events that may wait
	patience patience
	tally    *tally
	batches  *batches // nil when lines go one by one
	lease    *lease   // nothing is sent once it is over
	// epoch counts the joins of the topic. duplicate is whether the server said of the last
	// event only that it is there already, and doubtful whether a copy of the last one may
	// have arrived. They are the sender's own.
	epoch               int
	duplicate, doubtful bool

	mu sync.Mutex
	// rejoined is called by the sender before the first event of a join that
	// is not the first.
	rejoined  func(ctx context.Context, join *channel.Join)
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

func newOutbox(topic *channel.Topic, log *slog.Logger, limit int, patience patience, tally *tally) *outbox {
	return &outbox{
		topic: topic, log: log, limit: limit, patience: patience, tally: tally,
		rejoined: func(context.Context, *channel.Join) {},
		epoch:    1,
		lease:    new(lease),
		work:     make(chan struct{}, 1), room: make(chan struct{}),
	}
}

// afterRejoin says what a new join needs before its first event.
func (o *outbox) afterRejoin(do func(ctx context.Context, join *channel.Join)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.rejoined = do
}

// put appends an event, and reports whether it was taken. While the outbox is full it
// blocks, until there is room; what finds none by the time that done is closed, or the
// outbox is dead, is not taken.
func (o *outbox) put(done <-chan struct{}, e event, size int) bool {
	size += overhead
	for {
		o.mu.Lock()
		if fits := o.bytes == 0 || o.bytes+size <= o.limit; fits || o.dead {
			taken := fits && o.appendLocked(e, size)
			o.mu.Unlock()
			return taken
		}
		room := o.room
		o.mu.Unlock()
		select {
		case <-room:
		case <-done:
			return false
		}
	}
}

// force appends an event however full the outbox is, and reports whether it was taken: it
// is not once the run is over.
func (o *outbox) force(e event, size int) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.appendLocked(e, size+overhead)
}

// putFirst puts an event before the head.
func (o *outbox) putFirst(e event) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.queue = append([]queued{{e, 0}}, o.queue...)
}

func (o *outbox) appendLocked(e event, size int) bool {
	if o.closed {
		return false
	}
	o.queue = append(o.queue, queued{e, size})
	o.bytes += size
	o.signalLocked()
	return true
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
	err := errDead // what stands after a panic
	defer func() {
		if err != nil {
			o.die()
		}
	}()
	err = o.sendAll(ctx)
	return err
}

func (o *outbox) sendAll(ctx context.Context) error {
	for {
		e, last := o.head()
		switch {
		case o.batches.take(e):
			if err := o.sendBatch(ctx); err != nil {
				return err
			}
		case e != nil:
			if err := o.send(ctx, e); err != nil {
				return err
			}
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

// send delivers the head.
func (o *outbox) send(ctx context.Context, e event) error {
	var tries tries
	refusal, err := o.deliver(ctx, e, &tries)
	o.doubtful = tries.unknown > 0
	if err != nil {
		return err
	}
	o.duplicate = tries.duplicate
	o.settle(e, refusal)
	o.pop(1)
	return nil
}

// settle tells everybody what became of an event.
func (o *outbox) settle(e event, refusal error) {
	e.settled(refusal)
	if refusal == nil {
		return
	}
	o.tally.undeliver(e.name(), 1)
	if errors.Is(refusal, channel.ErrOutcomeUnknown) {
		o.log.Warn("an event may be lost, and is not sent again", "event", e.name(), "error", refusal)
		return
	}
	o.log.Warn("the server does not take an event of the run", "event", e.name(), "error", refusal)
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

// pop takes the first n events out, which are delivered.
func (o *outbox) pop(n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i := range n {
		o.bytes -= o.queue[i].size
		o.queue[i] = queued{} // let the event go, the array stays
	}
	o.queue = o.queue[n:]
	o.delivered += n
	o.makeRoomLocked()
}

// waiting returns how many events the server has not answered yet.
func (o *outbox) waiting() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.queue)
}

// flush waits until everything was delivered.
func (o *outbox) flush(ctx context.Context) error {
	for {
		o.mu.Lock()
		empty, dead, room := len(o.queue) == 0, o.dead, o.room
		o.mu.Unlock()
		switch {
		case empty:
			return nil
		case dead:
			return errDead
		}
		select {
		case <-room:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

var errDead = errors.New("nothing can be delivered any more")

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
