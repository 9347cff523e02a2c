package runner

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/phxworker/phxworker/channel"
)

// patience is how long the server's answers are waited for: for as long as the
// join lives, because a second copy on a live join would crash the topic; but
// not once the run's token is over. The server has called the run lost by then,
// and an answer that is so late will not come.
type patience struct {
	// overdue is how long a push may go unanswered before the log says so. It is
	// also what a push is given in any case, however late the run.
	overdue time.Duration
	// until is when the run's token is over; zero when it does not tell.
	until time.Time
	log   *slog.Logger
}

// errTokenOver is why an answer is not waited for any longer.
var errTokenOver = errors.New("the server did not answer, and the run's token has expired meanwhile")

// newPatience takes the token for one that began to count when it came, however long
// the join took after that.
func newPatience(token string, came time.Time, overdue time.Duration, log *slog.Logger) patience {
	p := patience{overdue: overdue, log: log}
	if life := lifetime(token); life > 0 {
		p.until = came.Add(life)
	}
	return p
}

// push waits for the answer to one push. Its error wraps errTokenOver when
// patience came to its end.
func (p patience) push(ctx context.Context, topic *channel.Topic, event string, payload any) (channel.Reply, error) {
	overdue := time.AfterFunc(p.overdue, func() {
		p.log.Warn("the server has not answered yet; still waiting", "event", event, "after", p.overdue)
	})
	defer overdue.Stop()
	if !p.until.IsZero() {
		atLeast := time.Now().Add(p.overdue)
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadlineCause(ctx, later(p.until, atLeast), errTokenOver)
		defer cancel()
	}
	return topic.Push(ctx, event, payload)
}

// deadline returns when a run must end that may take so long from now on: in time
// for its end to be told while the token is good.
func (p patience) deadline(limit time.Duration) time.Time {
	const toTell = 5 * time.Second
	at := time.Now().Add(limit)
	if last := p.until.Add(-toTell); !p.until.IsZero() && last.Before(at) {
		return last
	}
	return at
}

// over reports whether nothing need be waited for any longer.
func (p patience) over() bool { return !p.until.IsZero() && time.Now().After(p.until) }

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// lifetime returns how long a run's token is good, zero when it does not tell.
// Lightning makes the token when it gives the run away, with "nbf" for then and
// "exp" for the end; their difference needs no clock that agrees with the
// server's. Whether to trust the token was decided before, see claim.Verifier.
func lifetime(token string) time.Duration {
	var claims jwt.RegisteredClaims
	if _, _, err := jwt.NewParser().ParseUnverified(token, &claims); err != nil || claims.NotBefore == nil || claims.ExpiresAt == nil {
		return 0
	}
	return claims.ExpiresAt.Sub(claims.NotBefore.Time)
}
