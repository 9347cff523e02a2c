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

// KnownExtensions returns the names of the extensions to Lightning's protocol that
// this worker can use, where the server announces them.
func KnownExtensions() []string {
	return append(slices.Clone(queueExtensions), terms.Extensions()...)
}

// newExtensions returns what a configuration offers.
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

// queue is the worker's place on the topic worker:queue; it passes on the server's wake-ups. What is
// pushed there about runs is in claims.go.
type queue struct {
	topic    *channel.Topic
	pools    []*slots.Pool
	set      *extension.Set
	patience time.Duration // until an unanswered claim is worth a warning
	budget   *budget
	log      *slog.Logger
	drain    *signal // raised when the server asks for it
	prefetch bool    // runs are to be claimed ahead

	mu       sync.Mutex
	standing QueueStats
}

// newQueue returns the queue, whose topic is joined for as long as [queue.listen] goes on.
func newQueue(w *Worker, socket *channel.Socket) (*queue, error) {
	q := &queue{
		pools: w.pools, set: w.extensions, patience: w.cfg.Delivery.MessageTimeout,
		budget: w.budget, log: w.log, drain: w.drain, prefetch: w.cfg.Claim.Prefetch,
		standing: QueueStats{Since: time.Now(), Extensions: []string{}},
	}
	var err error
	q.topic, err = socket.Keep(queueTopic, q) // the payload is q.MarshalJSON
	return q, err
}

// MarshalJSON is what the server is told at each join: the slots that the pools have by then, in
// all and by the names of their groups, and what the worker can do beyond the protocol.
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

// leaveTimeout bounds the leave: the socket is closed right after it, which
// the server understands as well.
const leaveTimeout = 2 * time.Second

// listen calls wake, which must not wait, for each wake-up of the server's, until ctx ends; then it leaves.
func (q *queue) listen(ctx context.Context, wake func()) {
	var last *channel.Join
	for {
		join, changed := q.topic.Current()
		q.noteJoined(join != nil)
		if join != nil && join != last {
			last = join
			q.greet(join)
		}
		select {
		case <-changed:
		case message := <-q.topic.Messages():
			q.hear(message, wake)
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

// greet says what was agreed on with a join.
func (q *queue) greet(join *channel.Join) {
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

// hear acts on what the server pushes. What is not known, or was not agreed on, is
// counted and left at that.
func (q *queue) hear(message channel.Message, wake func()) {
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
	// leastInterval is between two statuses, whatever the server wants.
	leastInterval = 100 * time.Millisecond
	// never is longer than any join lasts.
	never = 1000 * time.Hour
)

// statusInterval returns how often the server wants to hear of the worker.
func (q *queue) statusInterval(join *channel.Join) time.Duration {
	var agreed struct {
		IntervalMS float64 `json:"interval_ms"`
	}
	if !q.set.Agreed(join, extStatus, &agreed) || agreed.IntervalMS <= 0 {
		return never
	}
	return max(extension.Milliseconds(agreed.IntervalMS), leastInterval)
}

// reportStatus reports to the server how the worker is, as often as it wants, and once
// when it begins to drain, until ctx ends.
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
			draining = nil // it was told of that
		case <-ctx.Done():
			return
		}
	}
}

// pushStatus pushes one status. What becomes of it does not matter: the next one is
// not far.
func (q *queue) pushStatus(ctx context.Context, join *channel.Join, s status, patience time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if _, err := q.set.Push(ctx, join, extStatus, "worker:status", s); err != nil {
		q.log.Debug("the server was not told the worker's status", "error", err)
	}
}
