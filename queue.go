package phxworker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/phxworker/phxworker/channel"
	"github.com/phxworker/phxworker/channel/extension"
	"github.com/phxworker/phxworker/claim"
	"github.com/phxworker/phxworker/slots"
)

const (
	queueTopic    = "worker:queue"
	workAvailable = "work-available"
)

// queue keeps the worker on the topic worker:queue for as long as it runs,
// passes on the server's wake-ups, and puts claims.
type queue struct {
	socket   *channel.Socket
	payload  joinPayload
	patience time.Duration // until an unanswered claim is worth a warning
	budget   *budget
	log      *slog.Logger

	drain *signal // raised when the server asks for it
	// prefetch is whether runs are to be claimed ahead.
	prefetch bool

	mu       sync.Mutex
	topic    *channel.Topic // nil while there is none
	changed  chan struct{}  // closed and replaced when topic changes
	standing QueueStats
}

func newQueue(w *Worker, socket *channel.Socket) *queue {
	return &queue{
		socket: socket, payload: joinPayload{pools: w.pools, set: w.extensions}, patience: w.cfg.Delivery.MessageTimeout,
		budget: w.budget, log: w.log, drain: w.drain, prefetch: w.cfg.Claim.Prefetch, changed: make(chan struct{}),
		standing: QueueStats{Since: time.Now(), Extensions: []string{}},
	}
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

// noteJoined remembers whether the topic is joined.
func (q *queue) noteJoined(joined bool) {
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

func (q *queue) stats(now time.Time) QueueStats {
	q.mu.Lock()
	defer q.mu.Unlock()
	stats := q.standing
	stats.For, stats.Since = seconds(now.Sub(stats.Since)), stats.Since.UTC()
	return stats
}

// set publishes a topic that was joined, or nil when it is none any more.
func (q *queue) set(topic *channel.Topic) {
	q.noteJoined(topic != nil)
	q.mu.Lock()
	defer q.mu.Unlock()
	q.topic = topic
	close(q.changed)
	q.changed = make(chan struct{})
}

// now returns the join that counts, nil if there is none, and else what is closed when
// that may have changed.
func (q *queue) now() (join *channel.Join, changed <-chan struct{}) {
	q.mu.Lock()
	topic, replaced := q.topic, q.changed
	q.mu.Unlock()
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
		req.WaitMS = q.waitFor(ctx, join)
	}
	patience := q.patience + time.Duration(req.WaitMS)*time.Millisecond
	overdue := time.AfterFunc(patience, func() {
		q.log.Warn("the server has not answered a claim yet; still waiting", "queues", req.Queues, "after", patience)
	})
	defer overdue.Stop()
	// Under this join alone: what its runs are given for was agreed on with it.
	var reply channel.Reply
	var err error
	if req.WaitMS > 0 {
		reply, err = q.payload.set.Push(ctx, join, extLongpoll, "claim", req)
	} else {
		reply, err = join.Push(ctx, "claim", req)
	}
	if errors.Is(err, channel.ErrNotSent) {
		if join, _ := q.now(); join == nil { // it was lost in this very moment
			return nil, claim.ErrNotReady
		}
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
	return q.runs(reply, join, req.Demand)
}

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
		q.noteJoined(join != nil)
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

const (
	// maxClaimed is how many runs are taken of one reply, if no more were asked for: what is
	// too much waits for a slot here, which nobody else can give it.
	maxClaimed = 1000
	// maxRunID and maxToken are in bytes, and many times what Lightning has. Both are held
	// for as long as the run, and the id is on each line about it.
	maxRunID = 1000
	maxToken = 64 << 10
)

// runs reads the reply to a claim. One run that cannot be read must not cost
// the others, which the server has given away as well.
func (q *queue) runs(reply channel.Reply, join *channel.Join, demand int) ([]claim.Run, error) {
	body := struct {
		Runs runList `json:"runs"`
	}{runList{most: max(maxClaimed, demand)}}
	if err := reply.Decode(&body); err != nil {
		return nil, err
	}
	runs := make([]claim.Run, 0, len(body.Runs.read))
	for _, run := range body.Runs.read {
		runs = append(runs, q.asAgreed(run.Run, run.data, join))
	}
	if n := body.Runs.unreadable; n > 0 {
		q.log.Error("the server gave a run that cannot be read; it is lost", "runs", n, "error", body.Runs.why)
	}
	if body.Runs.more {
		q.log.Error("the server gave many more runs than were asked for; those after the first are lost", "demand", demand, "first", body.Runs.most)
	}
	return runs, nil
}

// runList is the runs of a reply. It reads them one by one, for a reply may have
// millions of something else.
type runList struct {
	most int

	read       []runData
	more       bool // than the most
	unreadable int
	why        error // the first of them is
}

type runData struct {
	claim.Run

	data json.RawMessage
}

// UnmarshalJSON reads an array, or null.
func (l *runList) UnmarshalJSON(data []byte) error {
	*l = runList{most: l.most} // a second one in the same reply counts alone
	if bytes.Equal(data, []byte("null")) {
		return nil
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	if start, err := decoder.Token(); err != nil || start != json.Delim('[') {
		return errors.New("the runs are no array")
	}
	for n := 0; decoder.More(); n++ {
		if l.more = n == l.most; l.more {
			return nil
		}
		var run runData
		if err := decoder.Decode(&run.data); err != nil {
			return err
		}
		if err := run.parse(); err != nil {
			l.unreadable++
			if l.why == nil {
				l.why = err
			}
			continue
		}
		l.read = append(l.read, run)
	}
	return nil
}

func (r *runData) parse() error {
	if err := json.Unmarshal(r.data, &r.Run); err != nil {
		return err
	}
	if len(r.ID) > maxRunID || len(r.Token) > maxToken {
		return fmt.Errorf("its id has %d bytes, and its token %d; %d and %d are the most that are taken", len(r.ID), len(r.Token), maxRunID, maxToken)
	}
	return nil
}
