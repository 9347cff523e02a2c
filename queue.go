package phxworker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/phxworker/phxworker/channel"
	"github.com/phxworker/phxworker/channel/extension"
	"github.com/phxworker/phxworker/claim"
	"github.com/phxworker/phxworker/internal/histogram"
	"github.com/phxworker/phxworker/slots"
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

	drain *signal // raised when the server asks for it
	// prefetch is whether runs are to be claimed ahead.
	prefetch bool

	// seconds is how long the claims of each group took.
	seconds map[string]*histogram.Histogram

	mu       sync.Mutex
	topic    *channel.Topic // nil while there is none
	changed  chan struct{}  // closed and replaced when topic changes
	standing QueueStats
}

func newQueue(w *Worker, socket *channel.Socket) *queue {
	q := &queue{
		socket: socket, payload: joinPayload{pools: w.pools, set: w.extensions}, claimTimeout: w.cfg.ClaimTimeout, patience: w.cfg.MessageTimeout,
		budget: w.budget, log: w.log, drain: w.drain, prefetch: w.cfg.Prefetch, changed: make(chan struct{}),
		seconds: make(map[string]*histogram.Histogram), standing: QueueStats{Since: time.Now()},
	}
	for _, group := range w.groups {
		q.seconds[group.Name] = new(histogram.Histogram)
	}
	return q
}

// run joins the topic, and joins it anew should the server end it, until ctx
// ends; then it leaves. wake is called for each wake-up of the server's, and must not wait.
func (q *queue) run(ctx context.Context, wake func()) {
	pace := backoff.NewExponentialBackOff(backoff.WithInitialInterval(time.Second), backoff.WithMaxInterval(time.Minute), backoff.WithMaxElapsedTime(0))
	for ctx.Err() == nil {
		topic, err := q.socket.Join(ctx, queueTopic, q.payload)
		if err == nil {
			pace.Reset()
			q.set(topic)
			err = q.listen(ctx, topic, wake)
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

// joinPayload is what the server is told at each join of the queue: the slots that
// the pools have by then, and what the worker can do beyond the protocol.
type joinPayload struct {
	pools []*slots.Pool
	set   *extension.Set
}

func (p joinPayload) MarshalJSON() ([]byte, error) {
	groups := make([]slots.Group, len(p.pools))
	for i, pool := range p.pools {
		groups[i] = pool.Group()
		groups[i].Slots = pool.Counts().Size
	}
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false) // so that "manual>*" looks as it does everywhere else
	err := encoder.Encode(struct {
		slots.JoinPayload

		Extensions map[string]int `json:"extensions,omitempty"`
	}{slots.NewJoinPayload(groups), p.set.Offer(queueExtensions...)})
	return b.Bytes(), err
}

// listen passes on wake-ups until the topic or ctx ends.
func (q *queue) listen(ctx context.Context, topic *channel.Topic, wake func()) error {
	var last *channel.Join
	for {
		join, changed := topic.Current()
		q.note(join != nil)
		if join != nil && join != last {
			last = join
			q.greet(join)
		}
		select {
		case <-changed:
		case message := <-topic.Messages():
			q.hear(message, wake)
		case <-topic.Done():
			return topic.Err()
		case <-ctx.Done():
			leave, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTimeout)
			defer cancel()
			if err := topic.Leave(leave); err != nil {
				q.log.Debug("could not leave the queue", "error", err)
			}
			return context.Cause(ctx)
		}
	}
}

// greet says what was agreed on with a join.
func (q *queue) greet(join *channel.Join) {
	agreed := []string{}
	for _, name := range queueExtensions {
		if q.payload.set.Agreed(join, name, nil) {
			agreed = append(agreed, name)
		}
	}
	q.mu.Lock()
	q.standing.Extensions = agreed
	q.mu.Unlock()
	attrs := []any{"topic", queueTopic}
	if len(agreed) > 0 {
		attrs = append(attrs, "extensions", strings.Join(agreed, ","))
	}
	q.log.Info("joined the queue", attrs...)
	if q.prefetch && !slices.Contains(agreed, extRelease) {
		q.log.Warn("no run is claimed ahead: the server takes none back", "topic", queueTopic)
	}
}

// hear acts on what the server pushes. What is not known, or was not agreed on, is
// counted and left at that.
func (q *queue) hear(message channel.Message, wake func()) {
	switch {
	case message.Event == workAvailable:
		wake()
	case message.Event == "worker:drain" && q.payload.set.Agreed(message.Join, extDrain, nil):
		q.log.Info("the server asks the worker to stop")
		q.drain.raise()
	default:
		q.mu.Lock()
		q.standing.Unknown++
		q.mu.Unlock()
		q.log.Debug("the server pushed an event that is not known here", "topic", queueTopic, "event", message.Event)
	}
}

// leaveTimeout bounds the leave: the socket is closed right after it, which
// the server understands as well.
const leaveTimeout = 2 * time.Second

// leastInterval is between two statuses, whatever the server wants.
const leastInterval = 100 * time.Millisecond

// statusInterval returns how often the server wants to hear of the worker.
func (q *queue) statusInterval(join *channel.Join) time.Duration {
	var terms struct {
		IntervalMS float64 `json:"interval_ms"`
	}
	if !q.payload.set.Agreed(join, extStatus, &terms) || terms.IntervalMS <= 0 {
		return never
	}
	return max(extension.Milliseconds(terms.IntervalMS), leastInterval)
}

// status is what a server that wants to know is told about the worker.
type status struct {
	Groups   map[string]groupStatus `json:"groups"`
	Runs     []string               `json:"runs"`
	Draining bool                   `json:"draining"`
}

type groupStatus struct {
	Slots   int `json:"slots"`
	Open    int `json:"open"`
	Claimed int `json:"claimed"`
	Running int `json:"running"`
}

func (w *Worker) status() status {
	stats := w.Stats()
	_, err := w.claiming()
	s := status{Groups: make(map[string]groupStatus), Runs: []string{}, Draining: err != nil}
	for _, g := range stats.Groups {
		sum := s.Groups[g.Name] // groups may be alike
		sum.Slots += g.Size
		sum.Open += g.Open
		sum.Claimed += g.Claimed
		sum.Running += g.Running
		s.Groups[g.Name] = sum
	}
	for _, run := range stats.Runs {
		s.Runs = append(s.Runs, run.RunID)
	}
	return s
}

// reportStatus tells the server how the worker is, as often as it wants, and once
// when it begins to drain, until ctx ends.
func (q *queue) reportStatus(ctx context.Context, now func() status, draining <-chan struct{}) {
	timer := time.NewTimer(never)
	defer timer.Stop()
	for {
		join, err := q.nextJoin(ctx)
		if err != nil {
			return
		}
		interval := q.statusInterval(join)
		if interval != never {
			q.tell(ctx, join, now(), interval)
		}
		timer.Reset(interval)
		select {
		case <-timer.C:
		case <-join.Lost():
		case <-draining:
			draining = nil // it was told of that
		case <-ctx.Done():
			return
		}
	}
}

// never is longer than any join lasts.
const never = 1000 * time.Hour

// tell pushes one status. What becomes of it does not matter: the next one is
// not far.
func (q *queue) tell(ctx context.Context, join *channel.Join, s status, patience time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if _, err := q.payload.set.Push(ctx, join, extStatus, "worker:status", s); err != nil {
		q.log.Debug("the server was not told the worker's status", "error", err)
	}
}
