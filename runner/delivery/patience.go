package delivery

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/phxworker/phxworker/channel"
)

// patience is how long the server's answers are waited for, and how long a run is worth
// it: until its token is over, for the server has called the run lost by then.
type patience struct {
	// answer is how long a push may go unanswered before its join is given up. It is also
	// what a push is given in any case, however late the run.
	answer time.Duration
	// until is when the run's token is over, and untold whether that is a guess.
	until  time.Time
	untold bool
	// recovered tells all runs that the server answers again what it crashed over.
	recovered func()
}

// errTokenOver is why nothing is waited for any longer.
var errTokenOver = errors.New("the server has not acknowledged it, and the run's token has expired meanwhile")

// untoldLife is how long a token is taken to live that does not tell: longer than runs
// do, and not for ever, which is how long a slot would be held by an event that no
// server answers.
const untoldLife = 24 * time.Hour

// newPatience is for a run that was claimed at that time, which is when its token was
// made.
func newPatience(token string, claimed time.Time, answer time.Duration, recovered func()) patience {
	life := lifetime(token)
	untold := life <= 0
	if untold {
		life = untoldLife
	}
	return patience{answer: answer, until: claimed.Add(life), untold: untold, recovered: recovered}
}

// push waits for the answer to one push under a join, twice as long for each time
// that it went unanswered before: a slow server must not be asked the same for ever. The
// error wraps [channel.ErrUnanswered], or errTokenOver.
func (p patience) push(ctx context.Context, under *channel.Join, event string, payload any, before int) (channel.Reply, error) {
	const mostDoublings = 10
	within := p.answer << min(before, mostDoublings)
	if left := max(time.Until(p.until), p.answer); left < within {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeoutCause(ctx, left, errTokenOver)
		defer stop()
	}
	return under.PushWithin(ctx, within, event, payload)
}

// TokenEnd returns when the token of the run is over, by which its end must have been told; it is told if
// the token says so, else the time is a guess.
func (o *Outbox) TokenEnd() (at time.Time, told bool) { return o.patience.until, !o.patience.untold }

// over reports whether nothing need be tried any more.
func (p patience) over() bool { return time.Now().After(p.until) }

// lifetime returns how long a run's token is good, zero when it does not tell.
// Lightning makes the token when it gives the run away, with "nbf" for then, or else "iat",
// and "exp" for the end; their difference needs no clock that agrees with the
// server's. Whether to trust the token was decided before, see claim.Verifier.
func lifetime(token string) time.Duration {
	var claims jwt.RegisteredClaims
	if _, _, err := jwt.NewParser().ParseUnverified(token, &claims); err != nil || claims.ExpiresAt == nil {
		return 0
	}
	begin := cmp.Or(claims.NotBefore, claims.IssuedAt)
	if begin == nil {
		return 0
	}
	return claims.ExpiresAt.Sub(begin.Time)
}
