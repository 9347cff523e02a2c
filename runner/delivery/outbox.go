package delivery

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/phxworker/phxworker/channel"
	"github.com/phxworker/phxworker/claim"
)

// Permit says whether a run may still be reported from here.
type Permit interface {
	// Withdrawn returns why nothing more may be sent, nil while it may. It is asked before each event with nil,
	// and after one that failed with the error.
	Withdrawn(err error) error
}

// Limits bound the events of a run. Zero is no limit.
type Limits struct {
	// PayloadMB is the largest output dataclip, LogPayloadMB the largest line, in MB of 2^20 bytes.
	PayloadMB, LogPayloadMB float64
	// WithholdDataclips keeps the contents of output dataclips from the server.
	WithholdDataclips bool
}

// Outbox holds the events of one run in order, each until the server has acknowledged or refused it, and sends them one
// at a time. The head is the one that is sent; those behind it are unsent. Its methods may be called concurrently.
type Outbox struct {
	delivery *Delivery
	run      claim.Run
	permit   Permit
	log      *slog.Logger
	tokenEnd time.Time
	untold   bool                             // tokenEnd is a guess
	secrets  atomic.Pointer[strings.Replacer] // with what stands for them
	limits   atomic.Pointer[Limits]

	// These are the sender's own, which is the goroutine in Deliver.

	topic   *channel.Topic
	epoch   int     // the join that is ready for events
	webhook webhook // what the caller of the run's webhook is to be answered
	refused error   // why the server takes no end of the run
	// refusedEnd is that end; nil if the server has another one.
	refusedEnd *runComplete
	// delivered counts the events that the server has taken.
	delivered int

	mu          sync.Mutex
	credentials []any           // the payloads of those that were read; see readAgain
	done        <-chan struct{} // closed when nobody waits for room any more
	takesAll    bool            // there is room for everything
	queue       []event
	bytes       int
	leftOut     int           // lines that found no room
	closed      bool          // no more events will come
	dead        bool          // nothing will be sent any more
	work        chan struct{} // capacity one: the queue or closed changed
	room        chan struct{} // closed and replaced when events have left
}

// overhead is counted for each event besides its variable part, so that many small ones fill the outbox as well.
const overhead = 256

// Limit sets the limits of the run, which has none before.
func (o *Outbox) Limit(limits Limits) { o.limits.Store(&limits) }

// WaitUntil ends the waiting for room when ctx ends: a line that has found none is left out. All else is taken in any
// case, for there is little of it and the server counts on it.
func (o *Outbox) WaitUntil(ctx context.Context) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.done = ctx.Done()
}

// TakeAll makes room for everything: what is said at the end of a run is little, and nobody is there to wait.
func (o *Outbox) TakeAll() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.takesAll = true
}

// put appends an event whose variable part has so many bytes, when there is room.
func (o *Outbox) put(e event, size int) {
	size += overhead
	e.state().size = size
	o.mu.Lock()
	defer o.mu.Unlock()
	for waiting := true; waiting && !o.closed && !o.dead && !o.fitsLocked(size); {
		room, done := o.room, o.done
		o.mu.Unlock()
		select {
		case <-room:
		case <-done:
			waiting = false
		}
		o.mu.Lock()
	}
	isLine := e.name() == lineEvent
	if o.closed || isLine && !o.fitsLocked(size) {
		o.delivery.undeliver(e)
		if isLine {
			o.leftOut++
		}
		return
	}
	o.queue = append(o.queue, e)
	o.bytes += size
	o.signalLocked()
}

// fitsLocked reports whether there is room; an event that is larger than the outbox has it alone.
func (o *Outbox) fitsLocked(size int) bool {
	return o.takesAll || o.bytes == 0 || o.bytes+size <= o.delivery.cfg.OutboxBytes
}

func (o *Outbox) putFirst(e event) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.queue = append([]event{e}, o.queue...)
}

// Close tells that no more events will come; what an engine that outlived its run still reports is not taken.
func (o *Outbox) Close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
	o.signalLocked()
}

func (o *Outbox) signalLocked() {
	select {
	case o.work <- struct{}{}:
	default:
	}
}

// Deliver sends the events on the run's topic, which is joined, until the outbox is closed and empty. It returns an
// error when the rest cannot be delivered, because the topic, the permit or ctx has ended, or when the server does
// not take the end of the run; [Outbox.GiveUp] is for that. It is called once.
func (o *Outbox) Deliver(ctx context.Context, topic *channel.Topic) error {
	o.topic = topic
	o.delivery.topics.Store(topic, nil)
	defer o.delivery.topics.Delete(topic)
	defer o.die()               // after a panic, too
	var waited <-chan time.Time // fires when lines have waited for others long enough
	for late := false; ; {
		events, complete := o.next()
		switch {
		case complete && events == nil:
			return o.refused
		case complete || late:
			if err := o.send(ctx, events); err != nil {
				return err
			}
			waited, late = nil, false
			continue
		case events != nil && waited == nil:
			waited = time.After(o.delivery.cfg.BatchLogs.Interval)
		}
		select {
		case <-o.work:
		case <-waited:
			late = true
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-topic.Done():
			return topic.Err()
		}
	}
}

// next returns the events at the head that are sent together: one, or several lines as a batch. They are complete when
// none is to be waited for; none at all, when none will come.
func (o *Outbox) next() (events []event, complete bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.queue) == 0 {
		return nil, o.closed
	}
	limit, size := 1, 0
	if o.isBatched(o.queue[0]) {
		limit = o.delivery.cfg.BatchLogs.Limit
	}
	for n, e := range o.queue {
		size += e.state().size
		if n == limit || n > 0 && (e.name() != lineEvent || size > batchBytes) {
			return o.queue[:n], true
		}
	}
	return o.queue, o.closed || len(o.queue) == limit
}

func (o *Outbox) sendOne(ctx context.Context, e event) error {
	refusal, err := o.deliver(ctx, e)
	if err == nil {
		o.conclude(1, refusal)
	}
	return err
}

// conclude tells everybody what became of the first n events, and takes them out.
func (o *Outbox) conclude(n int, refusal error) {
	o.mu.Lock()
	concluded := o.queue[:n]
	o.mu.Unlock()
	bytes := 0
	for _, e := range concluded {
		e.answered(refusal)
		if refusal == nil {
			o.delivered++
		} else {
			o.delivery.undeliver(e)
			what := "the server does not take an event of the run"
			if errors.Is(refusal, channel.ErrOutcomeUnknown) {
				what = "an event may be lost, and is not sent again"
			}
			o.log.Warn(what, "event", e.name(), "error", refusal)
		}
		bytes += e.state().size
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	clear(o.queue[:n]) // let the events go, the array stays
	o.queue = o.queue[n:]
	o.bytes -= bytes
	o.makeRoomLocked()
}

// Waiting returns how many events the server has not answered yet.
func (o *Outbox) Waiting() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.queue)
}

// LeftOut returns how many lines found no room by the end of the run's time, or came after it.
func (o *Outbox) LeftOut() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.leftOut
}

// Flush waits until everything was delivered.
func (o *Outbox) Flush(ctx context.Context) error {
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
func (o *Outbox) die() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.dead = true
	o.makeRoomLocked()
}

func (o *Outbox) makeRoomLocked() {
	close(o.room)
	o.room = make(chan struct{})
}
