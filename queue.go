package phxworker

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/phxworker/phxworker/channel"
	"github.com/phxworker/phxworker/claim"
	"github.com/phxworker/phxworker/internal/histogram"
)

const (
	queueTopic    = "worker:queue"
	workAvailable = "work-available"
)

// queue keeps the worker on the topic worker:queue for as long as it runs,
// passes on the server's wake-ups, and puts claims.
type queue struct {
	socket       *channel.Socket
	payload      joinPayload
	claimTimeout time.Duration
	patience     time.Duration // until an unanswered claim is worth a warning
	budget       *budget
	log          *slog.Logger

	intake context.Context // when it ends, no claim is sent any more
	loops  []*claim.Loop   // which wake-ups go to
	drain  func()          // when the server asks for it
	// prefetch is whether runs are to be claimed ahead.
	prefetch bool

	// seconds is how long the claims of each group took.
	seconds map[string]*histogram.Histogram

	mu       sync.Mutex
	topic    *channel.Topic // nil while there is none
	changed  chan struct{}  // closed and replaced when topic changes
	standing QueueStats
}

func newQueue(w *Worker, socket *channel.Socket, intake context.Context) *queue {
	q := &queue{
		socket: socket, payload: joinPayload{pools: w.pools, set: w.extensions}, claimTimeout: w.cfg.ClaimTimeout, patience: w.cfg.MessageTimeout,
		budget: w.budget, log: w.log, intake: intake, drain: w.Drain, prefetch: w.cfg.Prefetch, changed: make(chan struct{}),
		seconds: make(map[string]*histogram.Histogram), standing: QueueStats{Since: time.Now()},
	}
	for _, group := range w.groups {
		q.seconds[group.Name] = new(histogram.Histogram)
	}
	return q
}

// run joins the topic, and joins it anew should the server end it, until ctx
// ends; then it leaves.
func (q *queue) run(ctx context.Context) {
	pace := backoff.NewExponentialBackOff(backoff.WithInitialInterval(time.Second), backoff.WithMaxInterval(time.Minute), backoff.WithMaxElapsedTime(0))
	for ctx.Err() == nil {
		topic, err := q.socket.Join(ctx, queueTopic, q.payload)
		if err == nil {
			pace.Reset()
			q.set(topic)
			err = q.listen(ctx, topic)
			q.set(nil)
		}
		if ctx.Err() != nil {
			return
		}
		wait := pace.NextBackOff()
		q.log.Error("not on the queue; will join again", "topic", queueTopic, "error", err, "in", wait.Round(time.Millisecond))
		select {
		case <-time.After(wait):
		case <-ctx.Done():
		}
	}
}

// note remembers whether the topic is joined.
func (q *queue) note(joined bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.standing.Joined == joined {
		return
	}
	q.standing.Joined, q.standing.Since = joined, time.Now()
	if joined {
		q.standing.Joins++
	}
}

func (q *queue) stats() QueueStats {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.standing
}

// set publishes a topic that was joined, or nil when it is none any more.
func (q *queue) set(topic *channel.Topic) {
	q.note(topic != nil)
	q.mu.Lock()
	defer q.mu.Unlock()
	q.topic = topic
	close(q.changed)
	q.changed = make(chan struct{})
}

func (q *queue) current() (*channel.Topic, <-chan struct{}) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.topic, q.changed
}

// isJoined reports whether a claim could be put just now.
func (q *queue) isJoined() bool {
	join, _ := q.now()
	return join != nil
}

// now returns the join that counts, nil if there is none, and else what is closed when
// that may have changed.
func (q *queue) now() (join *channel.Join, changed <-chan struct{}) {
	topic, replaced := q.current()
	if topic == nil {
		return nil, replaced
	}
	join, changed = topic.Current()
	if join == nil && topic.Err() != nil { // it has ended, and nothing more happens to it
		return nil, replaced
	}
	return join, changed
}

// always is closed.
var always = func() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// Ready returns what is closed when the queue is joined, or may be.
func (q *queue) Ready() <-chan struct{} {
	join, changed := q.now()
	if join != nil {
		return always
	}
	return changed
}

// claim puts a claim, which may wait at the server if that was agreed on. Once it has sent
// it, it waits for the reply also while the worker stops. The error is [claim.ErrNotReady]
// when the queue is not joined.
func (q *queue) claim(ctx context.Context, req claim.Request, mayWait bool) ([]claim.Run, error) {
	join, _ := q.now()
	if join == nil {
		return nil, claim.ErrNotReady
	}
	if mayWait {
		req.WaitMS = q.waitFor(join)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, q.claimTimeout, errClaimTimeout)
	defer cancel()
	patience := q.patience + time.Duration(req.WaitMS)*time.Millisecond
	overdue := time.AfterFunc(patience, func() {
		q.log.Warn("the server has not answered a claim yet; still waiting", "queues", req.Queues, "after", patience)
	})
	defer overdue.Stop()
	asked := time.Now()
	// Under this join alone: what its runs are given for was agreed on with it.
	var reply channel.Reply
	var err error
	if req.WaitMS > 0 {
		reply, err = q.payload.set.Push(ctx, join, extLongpoll, "claim", req)
	} else {
		reply, err = join.Push(ctx, "claim", req)
	}
	if errors.Is(err, channel.ErrNotSent) && !q.isJoined() { // it was lost in this very moment
		return nil, claim.ErrNotReady
	}
	q.budget.count(err)
	if errors.Is(err, channel.ErrOutcomeUnknown) {
		what, fate := "a claim was not answered", "is lost"
		if errors.As(err, new(*channel.AnswerTooLargeError)) {
			what = "a claim was answered with more than is read"
		}
		if q.payload.set.Agreed(join, extClaimAck, nil) {
			fate = "goes to another worker"
		}
		q.log.Warn(what+"; a run that the server may have given away with it "+fate, "queues", req.Queues, "error", err)
	}
	if err != nil {
		return nil, err
	}
	q.seconds[strings.Join(req.Queues, ">")].Observe(time.Since(asked))
	return q.runs(reply, join, req.Demand)
}

var errClaimTimeout = errors.New("the server did not answer the claim in time; a run it may have given is lost")
