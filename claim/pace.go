package claim

import (
	"time"

	"github.com/cenkalti/backoff/v4"
)

const (
	growth = 1.15
	jitter = 0.1
)

// pace is the pauses between claims that bring nothing.
type pace struct {
	min, max time.Duration
	backoff  *backoff.ExponentialBackOff
}

func newPace(minimum, maximum time.Duration) *pace {
	return &pace{min: minimum, max: maximum, backoff: backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(minimum),
		backoff.WithMaxInterval(maximum),
		backoff.WithMultiplier(growth),
		backoff.WithRandomizationFactor(jitter),
		backoff.WithMaxElapsedTime(0), // there is no giving up
	)}
}

// next returns the pause to make now, and lengthens the one after it.
func (p *pace) next() time.Duration {
	// The library's jitter goes beyond both ends.
	return min(max(p.backoff.NextBackOff(), p.min), p.max)
}

// reset makes the next pause the shortest again.
func (p *pace) reset() { p.backoff.Reset() }
