package terms

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/phxworker/phxworker/channel"
	"github.com/phxworker/phxworker/claim"
)

// Releaser returns runs to the queue, on servers that take them.
type Releaser interface {
	// TakesBack reports whether the server takes runs back. That is not known while there is no connection. It
	// does not wait.
	TakesBack() (yes, known bool)
	// Release returns a run, to be available again after the delay. It waits for a connection that is lost just
	// now, until ctx ends. The error says why the server did not take the run; it is still the worker's then.
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

// NewRelease returns the release of a claimed run, to be available again after the delay.
func NewRelease(run claim.Run, reason string, delay time.Duration) Release {
	return Release{ID: run.ID, Token: run.Token, Reason: reason, DelayMS: delay.Milliseconds()}
}

// TakesBack reports whether the server takes runs back. That is not known while there is no connection.
func (t *Terms) TakesBack() (yes, known bool) {
	if t.releaser == nil {
		return false, true
	}
	return t.releaser.TakesBack()
}

// Return returns a run to the queue, if the server takes it, and reports whether it is no longer this worker's. What was
// reported up to then is delivered first, by flush; both topic and flush are nil for a run that is not joined. A lost
// connection is waited for, unless it is hasty.
func (t *Terms) Return(ctx context.Context, topic *channel.Topic, flush func(ctx context.Context) error, run Release, hasty bool, log *slog.Logger) bool {
	if yes, known := t.TakesBack(); !yes && (known || hasty) {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, releaseWithin)
	defer cancel()
	if flush != nil && flush(ctx) != nil {
		return false
	}
	err := t.releaser.Release(ctx, run)
	// A server that takes a run back closes its topic as well. That may be heard and the answer be lost.
	refused, closed := errors.As(err, new(*channel.RefusedError)), topic != nil && errors.Is(topic.Err(), channel.ErrEnded)
	if err != nil && (refused || !closed) {
		log.Warn("the run could not be returned to the queue", "error", err)
		return false
	}
	return true
}
