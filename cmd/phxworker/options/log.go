package options

import (
	"io"
	"log/slog"
	"math"
	"strings"
)

// Log is how to log.
type Log struct {
	Level slog.Level
	// Format is "text", "json", one object a line, or "auto": text on a terminal
	// and JSON elsewhere.
	Format string
}

// silent is above every level.
const silent = slog.Level(math.MaxInt)

// Handler returns a handler that writes to w, which may be a terminal.
func (l Log) Handler(w io.Writer, terminal bool) slog.Handler {
	opts := &slog.HandlerOptions{Level: l.Level}
	if l.Format == "json" || l.Format == "auto" && !terminal {
		opts.ReplaceAttr = readable
		return slog.NewJSONHandler(w, opts)
	}
	return slog.NewTextHandler(w, opts)
}

// readable writes durations as in a text, "1.5s": in JSON they would be a number
// of nanoseconds that nobody takes for one.
func readable(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindDuration {
		a.Value = slog.StringValue(a.Value.Duration().String())
	}
	return a
}

// ParseLevel returns the level of that name, and whether there is one. The
// levels that only OpenFn's logger has are taken for info.
func ParseLevel(name string) (slog.Level, bool) {
	switch strings.ToLower(name) {
	case "debug":
		return slog.LevelDebug, true
	case "info", "default", "success", "always":
		return slog.LevelInfo, true
	case "warn":
		return slog.LevelWarn, true
	case "error":
		return slog.LevelError, true
	case "none":
		return silent, true
	}
	return 0, false
}

func (r *reader) level(key string) slog.Level {
	v, _ := r.take(key)
	level, ok := ParseLevel(v.text)
	if !ok {
		r.failf("%s %q is not a level: write debug, info, warn, error or none", v.from, v.text)
	}
	return level
}
