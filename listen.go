package phxworker

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/phxworker/phxworker/channel"
)

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
