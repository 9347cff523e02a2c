package phxworker

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/phxworker/phxworker/channel"
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
	socket       *channel.Socket
	payload      slots.JoinPayload
	claimTimeout time.Duration
	patience     time.Duration // until an unanswered claim is worth a warning
	budget       *budget
	log          *slog.Logger

	intake context.Context // when it ends, no claim is sent any more
	loops  []*claim.Loop   // which wake-ups go to

	mu      sync.Mutex
	topic   *channel.Topic // nil while there is none
	changed chan struct{}  // closed and replaced when topic changes
}

var _ claim.Claimer = (*queue)(nil)

func newQueue(w *Worker, socket *channel.Socket, intake context.Context) *queue {
	return &queue{
		socket: socket, payload: slots.NewJoinPayload(w.groups), claimTimeout: w.cfg.ClaimTimeout, patience: w.cfg.MessageTimeout,
		budget: w.budget, log: w.log, intake: intake, changed: make(chan struct{}),
	}
}

// run joins the topic, and joins it anew should the server end it, until ctx
// ends; then it leaves.
func (q *queue) run(ctx context.Context) {
	pace := backoff.NewExponentialBackOff(backoff.WithInitialInterval(time.Second), backoff.WithMaxInterval(time.Minute), backoff.WithMaxElapsedTime(0))
	for ctx.Err() == nil {
		topic, err := q.socket.Join(ctx, queueTopic, q.payload)
		if err == nil {
			pace.Reset()
			q.log.Info("joined the queue", "topic", queueTopic, "capacity", q.payload.Capacity)
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

// listen passes on wake-ups until the topic or ctx ends.
func (q *queue) listen(ctx context.Context, topic *channel.Topic) error {
	for {
		select {
		case message := <-topic.Messages():
			if message.Event == workAvailable {
				for _, loop := range q.loops {
					loop.Wake()
				}
			}
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

// leaveTimeout bounds the leave: the socket is closed right after it, which
// the server understands as well.
const leaveTimeout = 2 * time.Second

func (q *queue) set(topic *channel.Topic) {
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
	topic, _ := q.current()
	if topic == nil {
		return false
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := topic.Ready(ctx)
	return err == nil
}

// Claim implements [claim.Claimer]. It waits until the worker is on the queue
// only while the worker takes new work; once it has sent the claim, it waits
// for the reply in any case.
func (q *queue) Claim(ctx context.Context, req claim.Request) ([]claim.Run, error) {
	topic, err := q.joined()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, q.claimTimeout, errClaimTimeout)
	defer cancel()
	overdue := time.AfterFunc(q.patience, func() {
		q.log.Warn("the server has not answered a claim yet; still waiting", "queues", req.Queues, "after", q.patience)
	})
	defer overdue.Stop()
	reply, err := topic.Push(ctx, "claim", req)
	q.budget.count(err)
	if errors.Is(err, channel.ErrOutcomeUnknown) {
		q.log.Warn("a claim was not answered; a run that the server has given away with it is lost", "queues", req.Queues, "error", err)
	}
	if err != nil {
		return nil, err
	}
	return q.runs(reply)
}

// runs reads the reply to a claim. One run that cannot be read must not cost
// the others, which the server has given away as well.
func (q *queue) runs(reply channel.Reply) ([]claim.Run, error) {
	var body struct {
		Runs []json.RawMessage `json:"runs"`
	}
	if err := reply.Decode(&body); err != nil {
		return nil, err
	}
	runs := make([]claim.Run, 0, len(body.Runs))
	for _, data := range body.Runs {
		var run claim.Run
		if err := json.Unmarshal(data, &run); err != nil {
			q.log.Error("the server gave a run that cannot be read; it is lost", "error", err)
			continue
		}
		runs = append(runs, run)
	}
	return runs, nil
}

var errClaimTimeout = errors.New("the server did not answer the claim in time; a run it may have given is lost")

// joined returns the topic once it is joined. It gives up when the intake ends.
func (q *queue) joined() (*channel.Topic, error) {
	for {
		topic, changed := q.current()
		if topic != nil {
			_, err := topic.Ready(q.intake)
			if err == nil || q.intake.Err() != nil {
				return topic, err
			}
		}
		select {
		case <-changed:
		case <-q.intake.Done():
			return nil, context.Cause(q.intake)
		}
	}
}
