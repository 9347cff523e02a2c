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
	JSON  bool // one object a line, instead of text
}

// silent is above every level.
const silent = slog.Level(math.MaxInt)

// Logger returns a logger that writes to w.
func (l Log) Logger(w io.Writer) *slog.Logger {
	opts := &slog.HandlerOptions{Level: l.Level}
	if l.JSON {
		return slog.New(slog.NewJSONHandler(w, opts))
	}
	return slog.New(slog.NewTextHandler(w, opts))
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
	v, ok := r.take(key)
	if !ok {
		return slog.LevelInfo
	}
	level, ok := ParseLevel(v.text)
	if !ok {
		r.failf("%s %q is not a level: write debug, info, warn, error or none", v.from, v.text)
	}
	return level
}
