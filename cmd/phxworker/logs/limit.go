package logs

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"
)

const (
	// every is how often the same line is written.
	every = time.Minute
	// most bounds the lines that are remembered. Beyond, lines are written and
	// not remembered.
	most = 1000
)

// Limit returns a handler that passes records on to next, but warnings and worse
// only once a minute if they say the same: the next one that is passed on has an
// attribute "repeated" with how many were not; the rest is written by [Flush]. Records that belong to a run,
// those with a run_id, are all passed on: they are the run's story.
//
// Two records say the same if they agree in level, message, errors and texts.
// Numbers, times and durations differ each time and are not looked at.
func Limit(next slog.Handler) slog.Handler {
	return &limiter{next: next, seen: &memory{lines: make(map[string]*line)}}
}

type limiter struct {
	next slog.Handler
	seen *memory // shared with the handlers that are made from this one
	key  string  // of the attributes so far
	run  bool    // there is a run_id among them
}

// memory is what was written of late.
type memory struct {
	mu    sync.Mutex
	lines map[string]*line
}

type line struct {
	written time.Time
	left    int         // out, since it was written
	last    slog.Record // of those that were left out
	next    slog.Handler
}

// Flush writes the latest of each kind of record that a handler of [Limit] has left out since it last wrote one. Call it
// when the log ends: what was said in its last minute is not known otherwise.
func Flush(handler slog.Handler) {
	l, ok := handler.(*limiter)
	if !ok {
		return
	}
	for _, rest := range l.seen.rest() {
		record := repeated(rest.last, rest.left-1)
		_ = rest.next.Handle(context.Background(), record) // as for any record, nobody is there to hear of it
	}
}

// rest returns the lines of which something was left out, in the order of their time, and forgets that.
func (m *memory) rest() (rest []line) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, old := range m.lines {
		if old.left > 0 {
			rest = append(rest, *old)
			old.left = 0
		}
	}
	slices.SortFunc(rest, func(a, b line) int { return a.last.Time.Compare(b.last.Time) })
	return rest
}

// repeated returns the record with how often the like of it was left out before.
func repeated(record slog.Record, times int) slog.Record {
	if times > 0 {
		record = record.Clone()
		record.Add("repeated", times)
	}
	return record
}

func (l *limiter) Enabled(ctx context.Context, level slog.Level) bool {
	return l.next.Enabled(ctx, level)
}

func (l *limiter) Handle(ctx context.Context, record slog.Record) error {
	key, run := l.key, l.run
	record.Attrs(func(a slog.Attr) bool {
		key += keyOf(a)
		run = run || a.Key == "run_id"
		return true
	})
	if record.Level < slog.LevelWarn || run {
		return l.next.Handle(ctx, record)
	}
	left, write := l.seen.note(record.Level.String()+" "+record.Message+key, record, l.next)
	if !write {
		return nil
	}
	return l.next.Handle(ctx, repeated(record, left))
}

func (l *limiter) WithAttrs(attrs []slog.Attr) slog.Handler {
	c := *l
	c.next = l.next.WithAttrs(attrs)
	for _, a := range attrs {
		c.key += keyOf(a)
		c.run = c.run || a.Key == "run_id"
	}
	return &c
}

func (l *limiter) WithGroup(name string) slog.Handler {
	c := *l
	c.next = l.next.WithGroup(name)
	return &c
}

// note returns whether to write a line, and how many like it were left out since
// the last one that was written.
func (m *memory) note(key string, record slog.Record, next slog.Handler) (left int, write bool) {
	now := time.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	if old := m.lines[key]; old != nil {
		if now.Sub(old.written) < every {
			old.left++
			old.last, old.next = record.Clone(), next
			return 0, false
		}
		left = old.left
	}
	if len(m.lines) >= most {
		m.forgetLocked(now)
	}
	if len(m.lines) < most {
		m.lines[key] = &line{written: now}
	}
	return left, true
}

// forgetLocked drops the lines that would be written anyway.
func (m *memory) forgetLocked(now time.Time) {
	for key, old := range m.lines {
		if now.Sub(old.written) >= every {
			delete(m.lines, key)
		}
	}
}

// keyOf returns what the attribute adds to what a line says.
func keyOf(a slog.Attr) string {
	switch v := a.Value.Resolve(); v.Kind() { //nolint:exhaustive // see Limit
	case slog.KindString:
		return "\x00" + a.Key + "=" + v.String()
	case slog.KindAny:
		if err, ok := v.Any().(error); ok {
			return "\x00" + a.Key + "=" + fmt.Sprint(err)
		}
	}
	return ""
}
