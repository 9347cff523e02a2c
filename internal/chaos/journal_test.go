package chaos

import (
	"context"
	"log/slog"
	"strings"
	"sync"
)

// journal is the workers' own report: what their logs say of each run.
type journal struct {
	attrs []slog.Attr
	pages *pages
}

type pages struct {
	mu    sync.Mutex
	byRun map[string][]note // "" for what is about no run
}

// note is one line of a log.
type note struct {
	message string
	event   string
	err     string
	reason  string
	events  map[string]int // that were given up, by name
	lines   int            // that were left out
}

var _ slog.Handler = (*journal)(nil)

func newJournal() *journal { return &journal{pages: &pages{byRun: make(map[string][]note)}} }

func (j *journal) Enabled(context.Context, slog.Level) bool { return true }

func (j *journal) WithGroup(string) slog.Handler { return j }

func (j *journal) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &journal{attrs: append(append([]slog.Attr{}, j.attrs...), attrs...), pages: j.pages}
}

func (j *journal) Handle(_ context.Context, r slog.Record) error {
	n := note{message: r.Message}
	run := ""
	read := func(a slog.Attr) bool {
		switch a.Key {
		case "run_id":
			run = a.Value.String()
		case "event":
			n.event = a.Value.String()
		case "error":
			n.err = a.Value.String()
		case "reason":
			n.reason = a.Value.String()
		case "events":
			n.events, _ = a.Value.Any().(map[string]int)
		case "lines":
			n.lines = int(a.Value.Int64())
		}
		return true
	}
	for _, a := range j.attrs {
		read(a)
	}
	r.Attrs(read)
	j.pages.mu.Lock()
	defer j.pages.mu.Unlock()
	j.pages.byRun[run] = append(j.pages.byRun[run], n)
	return nil
}

// of returns the notes about a run.
func (j *journal) of(run string) notes {
	j.pages.mu.Lock()
	defer j.pages.mu.Unlock()
	return j.pages.byRun[run]
}

type notes []note

// count returns how many notes begin with this message, about this event unless
// that is empty.
func (ns notes) count(message, event string) int {
	n := 0
	for _, note := range ns {
		if strings.HasPrefix(note.message, message) && (event == "" || note.event == event) {
			n++
		}
	}
	return n
}

// undelivered adds up, by event, what the notes say that the server does not have.
func (ns notes) undelivered() map[string]uint64 {
	sum := make(map[string]uint64)
	for _, n := range ns {
		switch {
		case strings.HasPrefix(n.message, saysRefused), strings.HasPrefix(n.message, saysOnceOnly):
			sum[n.event]++
		case strings.HasPrefix(n.message, saysLeftOut):
			sum["run:log"] += uint64(n.lines)
		}
		for event, count := range n.events {
			sum[event] += uint64(count)
		}
	}
	return sum
}

// What the workers say when they cannot do what they should.
const (
	saysJoined    = "run joined"
	saysNoJoin    = "cannot join the run"
	saysGivenUp   = "the run was given up"
	saysComplete  = "run complete"
	saysLeftOut   = "lines of the run's log were left out"
	saysRefused   = "the server does not take an event of the run"
	saysLessened  = "the server does not take an event; it is offered with less"
	saysOnceOnly  = "an event may be lost, and is not sent again"
	saysEndNot    = "the end of the run was refused"
	saysTwice     = "the server gave a run that this worker is executing already"
	saysHeldGone  = "claimed run given up"
	saysStuckLoop = "a claim loop is stuck"
)
