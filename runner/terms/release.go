package terms

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/phxworker/phxworker/channel"
)

// Releaser returns runs to the queue, on servers that take them.
type Releaser interface {
	// TakesBack reports whether the server takes runs back. That is not known while there is no connection. It
	// does not wait.
	TakesBack() (yes, known bool)
	// Release returns a run, to be available again after the delay. It waits for a connection that is lost
	// just now, until ctx ends. The error says why the server did not take the run; it is still the worker's
	// then.
	Release(ctx context.Context, r Release) error
}

// Release is a run to be returned, as the server is told.
type Release struct {
	ID    string `json:"id"`
	Token string `json:"token"`
	// Reason is one of requeue, postpone, drain and prefetch.
	Reason  string `json:"reason"`
	DelayMS int64  `json:"delay_ms"`
}

// The reasons of a release.
const (
	ReleaseRequeue  = "requeue"  // it failed, and is to be tried again
	ReleasePostpone = "postpone" // it is for later
	ReleaseDrain    = "drain"    // it came while the worker stops, and was not begun
	ReleasePrefetch = "prefetch" // it was claimed ahead, and has waited too long
)

// releaseWithin bounds the wait for a connection to return a run, and for what is to be delivered before.
const releaseWithin = 30 * time.Second

// Flusher holds what was reported of a run; it waits until all of that is delivered.
type Flusher interface {
	Flush(ctx context.Context) error
}

// TakesBack reports whether the server takes runs back. That is not known while there is no connection.
func (t *Terms) TakesBack() (yes, known bool) {
	if t.releaser == nil {
		return false, true
	}
	return t.releaser.TakesBack()
}

// Return returns a run to the queue, if the server takes it, and reports whether it is no longer this worker's. What was
// reported up to then is delivered first. A lost connection is waited for, unless it is hasty.
func (t *Terms) Return(ctx context.Context, topic *channel.Topic, reported Flusher, run Release, hasty bool, log *slog.Logger) bool {
	if yes, known := t.TakesBack(); !yes && (known || hasty) {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, releaseWithin)
	defer cancel()
	if reported.Flush(ctx) != nil {
		return false
	}
	err := t.releaser.Release(ctx, run)
	// A server that takes a run back closes its topic as well. That may be heard and the answer be lost.
	refused := errors.As(err, new(*channel.RefusedError))
	if refused || err != nil && !errors.Is(topic.Err(), channel.ErrEnded) {
		log.Warn("the run could not be returned to the queue", "error", err)
		return false
	}
	return true
}
