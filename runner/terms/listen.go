package terms

import (
	"context"
	"encoding/json"
	"log/slog"
	"sync"

	"github.com/phxworker/phxworker/channel"
)

// Hearer is told what the server has to say to a run.
type Hearer interface {
	// Cancel tells that the server cancels the run. The message is the server's, and may be empty.
	Cancel(message string)
	// Notify hands on a notice, one at a time, and returns when it was taken or ctx ends. Another goroutine calls
	// it than Cancel.
	Notify(ctx context.Context, notice json.RawMessage)
}

// maxNotices is how many notices may wait for an engine that is busy: a cancellation must not have to wait behind
// them.
const maxNotices = 64

// Listen listens on a run's topic until ctx ends. What is not known, or was not agreed on, is counted and left at
// that.
func (t *Terms) Listen(ctx context.Context, topic *channel.Topic, to Hearer, log *slog.Logger) {
	notices := make(chan json.RawMessage, maxNotices)
	ctx, stop := context.WithCancel(ctx)
	var handing sync.WaitGroup
	defer handing.Wait()
	defer stop() // whatever ends the listening
	handing.Go(func() {
		for {
			select {
			case notice := <-notices:
				to.Notify(ctx, notice)
			case <-ctx.Done():
				return
			}
		}
	})
	for {
		select {
		case m := <-topic.Messages():
			t.hear(m, to, notices, log)
		case <-ctx.Done():
			return
		}
	}
}

func (t *Terms) hear(m channel.Message, to Hearer, notices chan<- json.RawMessage, log *slog.Logger) {
	switch {
	case m.Event == "run:cancel" && t.set.Agreed(m.Join, extCancel, nil):
		var said struct{ Message string }
		_ = json.Unmarshal(m.Payload, &said) // what cannot be read says nothing
		log.Info("the server cancels the run")
		to.Cancel(said.Message)
	case m.Event == "run:notify" && t.set.Agreed(m.Join, extNotify, nil):
		select {
		case notices <- m.Payload:
		default:
			log.Warn("a notice of the server is left out: the engine has not taken those before it", "waiting", maxNotices)
		}
	default:
		t.unknown.Add(1)
		log.Debug("the server pushed an event that is not known here", "event", m.Event)
	}
}
