package lightning

import (
	"context"
	"time"
)

// extended is what a [Service] knows beyond Lightning's protocol. Everything of it
// is in the files extended_*.go: the others are Lightning as it is, and touch it
// where they say so. A client that offers no extension meets none of it.
//
// One goroutine does what time brings, and answers the claims that wait. Whoever
// makes a run available, or changes who may have it, stirs it; it looks at
// everything each time, so that no stir is lost.
type extended struct {
	service *Service
	cfg     Extensions
	stirred chan struct{} // capacity 1

	// Service.mu guards what follows.
	agenda  agenda
	seats   seats
	workers map[string]*member // by worker_id
	waits   []*wait            // claims, in the order they came
	answers []answer           // for claims that waited
	news    []news             // for the log
	stats   ExtendedStats
}

// news is a line for the log, written when no lock is held.
type news struct {
	message string
	attrs   []any
}

func newExtended(s *Service, cfg Extensions) *extended {
	return &extended{service: s, cfg: cfg, stirred: make(chan struct{}, 1), workers: make(map[string]*member)}
}

func (x *extended) run(ctx context.Context) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		answers, lines, next := x.turn()
		for _, a := range answers {
			x.give(a)
		}
		for _, line := range lines {
			x.service.log.Warn(line.message, line.attrs...)
		}
		if !next.IsZero() {
			timer.Reset(time.Until(next))
		}
		select {
		case <-x.stirred:
		case <-timer.C:
		case <-ctx.Done():
			return
		}
	}
}

// turn does what is due and matches runs with the claims that wait for some.
func (x *extended) turn() (answers []answer, lines []news, next time.Time) {
	x.service.mu.Lock()
	defer x.service.mu.Unlock()
	now := time.Now()
	next = x.agenda.pass(now)
	x.matchLocked(now)
	answers, x.answers = x.answers, nil
	lines, x.news = x.news, nil
	return answers, lines, next
}

// stir has the goroutine take a turn.
func (x *extended) stir() {
	select {
	case x.stirred <- struct{}{}:
	default:
	}
}

// inLocked has something done after so much time.
func (x *extended) inLocked(d time.Duration, do func(now time.Time)) *deadline {
	due := x.agenda.add(time.Now().Add(d), do)
	if due.index == 0 {
		x.stir() // it is the next now
	}
	return due
}

func (x *extended) tellLocked(message string, attrs ...any) {
	x.news = append(x.news, news{message: message, attrs: attrs})
}
