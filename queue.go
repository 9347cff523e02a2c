package phxworker

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/phxworker/phxworker/channel"
	"github.com/phxworker/phxworker/channel/extension"
	"github.com/phxworker/phxworker/runner/terms"
	"github.com/phxworker/phxworker/slots"
)

const (
	queueTopic    = "worker:queue"
	workAvailable = "work-available"
)

// The extensions of the queue's topic; see docs/extensions.
const (
	extLease    = "lease"
	extAttempt  = "attempt"
	extRelease  = "release"
	extLongpoll = "longpoll"
	extClaimAck = "claim_ack"
	extStatus   = "status"
	extDrain    = "drain"
)

var queueExtensions = []string{extLease, extAttempt, extRelease, extLongpoll, extClaimAck, extStatus, extDrain}

// AllExtensions in [Config.Extensions] stands for all of them.
const AllExtensions = "all"

// KnownExtensions returns the names of the extensions to Lightning's protocol that this worker can use
// with a server that announces them.
func KnownExtensions() []string {
	return append(slices.Clone(queueExtensions), terms.Extensions()...)
}

// newExtensions returns the extensions that a configuration offers.
func (c *Config) newExtensions() (*extension.Set, error) {
	known := KnownExtensions()
	for _, name := range c.Extensions {
		if name != AllExtensions && !slices.Contains(known, name) {
			return nil, fmt.Errorf("there is no extension %q; there are %s, and %s for all of them", name, strings.Join(known, ", "), AllExtensions)
		}
	}
	if slices.Contains(c.Extensions, AllExtensions) {
		return extension.NewSet(c.Logger, known...), nil
	}
	return extension.NewSet(c.Logger, c.Extensions...), nil
}

// queue is the topic worker:queue. This file has its join, what the server pushes on it, and the
// worker's status; claims.go has what the worker pushes about runs.
type queue struct {
	topic    *channel.Topic
	pools    []*slots.Pool
	set      *extension.Set
	patience time.Duration // after which an unanswered claim is a warning
	budget   *budget
	log      *slog.Logger
	drain    *signal // raised when the server asks for it
	prefetch bool    // the worker wants to claim ahead

	mu       sync.Mutex
	standing QueueStats // what stats returns, but for the age
}

// newQueue returns the queue and begins to join its topic, which [queue.listen] leaves.
func newQueue(w *Worker, socket *channel.Socket) (*queue, error) {
	q := &queue{
		pools: w.pools, set: w.extensions, patience: w.cfg.Delivery.MessageTimeout,
		budget: w.budget, log: w.log, drain: w.drain, prefetch: w.cfg.Claim.Prefetch,
		standing: QueueStats{Since: time.Now(), Extensions: []string{}},
	}
	var err error
	q.topic, err = socket.Keep(queueTopic, q) // MarshalJSON is the payload
	return q, err
}

// MarshalJSON returns the payload of a join: the slots that the pools have at that moment, in all and
// by group, and the extensions that the worker offers.
func (q *queue) MarshalJSON() ([]byte, error) {
	payload := struct {
		Capacity   int            `json:"capacity"`
		Queues     map[string]int `json:"queues"`
		Extensions map[string]int `json:"extensions,omitempty"`
	}{0, make(map[string]int), q.set.Offer(queueExtensions...)}
	for _, pool := range q.pools {
		n := pool.Counts().Size
		payload.Capacity += n
		payload.Queues[pool.Group().Name] = n
	}
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false) // so that "manual>*" looks as it does everywhere else
	err := encoder.Encode(payload)
	return b.Bytes(), err
}

// noteJoined notes whether the topic is joined.
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

// leaveTimeout bounds the leave. The socket is closed right after it, and that ends the channel, too.
const leaveTimeout = 2 * time.Second

// listen handles the joins of the topic and what the server pushes on it. It calls wake, which must not
// wait, for each wake-up. When ctx ends, it leaves the topic.
func (q *queue) listen(ctx context.Context, wake func()) {
	var last *channel.Join
	for {
		join, changed := q.topic.Current()
		q.noteJoined(join != nil)
		if join != nil && join != last {
			last = join
			q.noteAgreed(join)
		}
		select {
		case <-changed:
		case message := <-q.topic.Messages():
			q.handle(message, wake)
		case <-ctx.Done():
			leave, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTimeout)
			defer cancel()
			if err := q.topic.Leave(leave); err != nil {
				q.log.Debug("could not leave the queue", "error", err)
			}
			q.noteJoined(false)
			return
		}
	}
}

// noteAgreed notes and logs which extensions were agreed on with a join.
func (q *queue) noteAgreed(join *channel.Join) {
	agreed := []string{}
	for _, name := range queueExtensions {
		if q.set.Agreed(join, name, nil) {
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

// handle acts on a message of the server. It only counts one that is not known or was not agreed on.
func (q *queue) handle(message channel.Message, wake func()) {
	switch {
	case message.Event == workAvailable:
		wake()
	case message.Event == "worker:drain" && q.set.Agreed(message.Join, extDrain, nil):
		q.log.Info("the server asks the worker to stop")
		q.drain.raise()
	default:
		q.mu.Lock()
		q.standing.Unknown++
		q.mu.Unlock()
		q.log.Debug("the server pushed an event that is not known here", "topic", queueTopic, "event", message.Event)
	}
}

const (
	// leastInterval is the shortest time between two statuses, whatever the server wants.
	leastInterval = 100 * time.Millisecond
	// never is longer than any worker lives.
	never = 1000 * time.Hour
)

// statusInterval returns the time between two statuses that the server wants; never if it wants none.
func (q *queue) statusInterval(join *channel.Join) time.Duration {
	var agreed struct {
		IntervalMS float64 `json:"interval_ms"`
	}
	if !q.set.Agreed(join, extStatus, &agreed) || agreed.IntervalMS <= 0 {
		return never
	}
	return max(extension.Milliseconds(agreed.IntervalMS), leastInterval)
}

// reportStatus reports the worker's status as often as the server wants, and once when draining is
// closed, until ctx ends.
func (q *queue) reportStatus(ctx context.Context, now func() status, draining <-chan struct{}) {
	timer := time.NewTimer(never)
	defer timer.Stop()
	for {
		join, err := q.topic.Ready(ctx)
		if err != nil {
			return
		}
		interval := q.statusInterval(join)
		if interval != never {
			q.pushStatus(ctx, join, now(), interval)
		}
		timer.Reset(interval)
		select {
		case <-timer.C:
		case <-join.Lost():
		case <-draining:
			draining = nil // the next status tells it, once
		case <-ctx.Done():
			return
		}
	}
}

// pushStatus pushes one status. A failure does not matter: the next status comes soon.
func (q *queue) pushStatus(ctx context.Context, join *channel.Join, s status, patience time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if _, err := q.set.Push(ctx, join, extStatus, "worker:status", s); err != nil {
		q.log.Debug("the server was not told the worker's status", "error", err)
	}
}
