package channel

import (
	"log/slog"
	"time"
)

// quiet is the time between two log lines about the same trouble.
const quiet = time.Minute

// report logs how a socket fares, in few lines: the first failure, then one
// line a minute, then the return. A connection that does not last is part of
// the same trouble. It is not safe for concurrent use.
type report struct {
	log *slog.Logger
	url string // without its query

	attempts int // failures since the trouble began
	since    time.Time
	warned   time.Time // the last warning of this trouble
	greeted  time.Time // the last return of this trouble
	before   bool      // there was a connection before
}

// reset ends the trouble.
func (r *report) reset() { *r = report{log: r.log, url: r.url, before: r.before} }

func (r *report) down(err error) {
	now := time.Now()
	r.attempts++
	if r.attempts == 1 {
		r.since, r.greeted = now, time.Time{}
	}
	if !r.warned.IsZero() && now.Sub(r.warned) < quiet {
		return
	}
	r.warned = now
	r.log.Warn("not connected, trying again", "url", r.url, "attempts", r.attempts, "error", err)
}

func (r *report) up() {
	now := time.Now()
	if !r.greeted.IsZero() && now.Sub(r.greeted) < quiet {
		return
	}
	r.greeted = now
	message := "connected"
	if r.before {
		message = "connected again"
	}
	r.before = true
	if r.attempts == 0 {
		r.log.Info(message, "url", r.url)
		return
	}
	r.log.Info(message, "url", r.url, "attempts", r.attempts, "after", now.Sub(r.since).Round(time.Millisecond))
}
