package terms

import (
	"context"
	"encoding/json"
	"log/slog"

	"github.com/phxworker/phxworker/channel"
)

// maxNotices is how many notices may wait for an engine that is busy: a cancellation must not have to wait behind them.
const maxNotices = 64

// Listen listens on a run's topic until ctx ends. It calls cancel when the server cancels the run, with a message that
// may be empty, and notify with each notice, one at a time and from another goroutine, which is not waited for: it may
// be an engine's by then. What is not known, or was not agreed on, is counted and left at that.
func (t *Terms) Listen(ctx context.Context, topic *channel.Topic, cancel func(message string), notify func(ctx context.Context, notice json.RawMessage), log *slog.Logger) {
	notices := make(chan json.RawMessage, maxNotices)
	go func() {
		for {
			select {
			case notice := <-notices:
				notify(ctx, notice)
			case <-ctx.Done():
				return
			}
		}
	}()
	for {
		select {
		case m := <-topic.Messages():
			t.hear(m, cancel, notices, log)
		case <-ctx.Done():
			return
		}
	}
}

func (t *Terms) hear(m channel.Message, cancel func(message string), notices chan<- json.RawMessage, log *slog.Logger) {
	switch {
	case m.Event == "run:cancel" && t.set.Agreed(m.Join, extCancel, nil):
		var said struct{ Message string }
		_ = json.Unmarshal(m.Payload, &said) // what cannot be read says nothing
		log.Info("the server cancels the run")
		cancel(said.Message)
	case m.Event == "run:notify" && t.set.Agreed(m.Join, extNotify, nil):
		select {
		case notices <- m.Payload:
		default:
			log.Warn("a notice of the server is left out: the engine has not taken those before it", "waiting", maxNotices)
		}
	default:
		t.Unknown.Add(1)
		log.Debug("the server pushed an event that is not known here", "event", m.Event)
	}
}
