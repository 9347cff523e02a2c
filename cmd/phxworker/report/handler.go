package report

import (
	"context"
	"log/slog"
	"slices"

	"github.com/getsentry/sentry-go"
)

// handler makes events of records. Sentry's own handler for slog makes entries of
// its log, which is another product, and not the events that people are told of.
type handler struct {
	reporter *Reporter
	attrs    []slog.Attr // with their groups in their keys
	prefix   string      // of the groups
}

func (h *handler) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelError }

func (h *handler) Handle(_ context.Context, record slog.Record) error {
	attrs := slices.Clone(h.attrs)
	record.Attrs(func(a slog.Attr) bool {
		attrs = appendFlat(attrs, h.prefix, a)
		return true
	})
	scrub := h.reporter.scrub
	event := sentry.NewEvent()
	event.Level, event.Timestamp, event.Logger = sentry.LevelError, record.Time, "phxworker"
	event.Message = record.Message
	fields := make(sentry.Context)
	for _, a := range attrs {
		text := scrub.text(a.Value.String())
		switch a.Key {
		case "error":
			// Sentry puts events with the same exception together.
			event.Exception = []sentry.Exception{{Type: record.Message, Value: text}}
		case "run_id", "group", "topic":
			event.Tags[a.Key] = text // what one looks for
		}
		fields[a.Key] = text
	}
	if len(fields) > 0 {
		event.Contexts["log"] = fields
	}
	h.reporter.client.CaptureEvent(event, nil, nil)
	return nil
}

func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	c := *h
	c.attrs = slices.Clone(h.attrs)
	for _, a := range attrs {
		c.attrs = appendFlat(c.attrs, h.prefix, a)
	}
	return &c
}

func (h *handler) WithGroup(name string) slog.Handler {
	c := *h
	if name != "" {
		c.prefix += name + "."
	}
	return &c
}

// appendFlat appends the attribute, those of a group one by one.
func appendFlat(attrs []slog.Attr, prefix string, a slog.Attr) []slog.Attr {
	a.Value = a.Value.Resolve()
	if a.Value.Kind() != slog.KindGroup {
		if a.Equal(slog.Attr{}) {
			return attrs
		}
		a.Key = prefix + a.Key
		return append(attrs, a)
	}
	if a.Key != "" {
		prefix += a.Key + "."
	}
	for _, member := range a.Value.Group() {
		attrs = appendFlat(attrs, prefix, member)
	}
	return attrs
}
