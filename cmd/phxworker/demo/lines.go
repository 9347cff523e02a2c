package demo

import (
	"fmt"
	"io"
	"slices"
	"time"
)

// lines writes a line when a run starts, and one when it ends. It is used by one goroutine.
type lines struct {
	out   io.Writer
	shown map[string]stage // by name of the run
}

// stage is how much of a run has been shown.
type stage int

const (
	waiting stage = iota
	started
	finished
)

func (s *lines) show(now snapshot) {
	type line struct {
		at   time.Time
		text string
	}
	var news []line
	for _, r := range now.runs {
		name, record := r.example.Name, r.record
		if s.shown[name] < started && !record.ClaimedAt.IsZero() {
			s.shown[name] = started
			news = append(news, line{record.ClaimedAt, fmt.Sprintf("start  %s, queue %s", name, record.Queue)})
		}
		if s.shown[name] < finished && r.ended() {
			s.shown[name] = finished
			news = append(news, line{record.FinishedAt, "end    " + name + ": " + ending(r)})
		}
	}
	slices.SortStableFunc(news, func(a, b line) int { return a.at.Compare(b.at) })
	for _, l := range news {
		fmt.Fprintln(s.out, l.text)
	}
}

// ending returns how a run ended: its reason, with what went wrong.
func ending(r run) string {
	if failure := r.failure(); failure != "" {
		return r.record.Reason + ", " + failure
	}
	return r.record.Reason
}
