package demo

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/phxworker/phxworker"
)

// screen shows how the scene changes. It is used by one goroutine.
type screen interface {
	show(now snapshot)
	close()
}

func newScreen(out io.Writer, terminal bool) screen {
	if terminal {
		return &liveLine{out: out}
	}
	return &plainLines{out: out, shown: make(map[string]stage)}
}

// liveLine redraws one line in place, on a terminal.
type liveLine struct {
	out  io.Writer
	last string
}

const (
	lineStart = "\r"
	clearRest = "\x1b[K"
)

func (l *liveLine) show(now snapshot) {
	line := progress(now)
	if line == l.last {
		return
	}
	l.last = line
	fmt.Fprint(l.out, lineStart+line+clearRest)
}

// close leaves an empty line to whatever comes next.
func (l *liveLine) close() { fmt.Fprint(l.out, lineStart+clearRest) }

// progress returns a line like
//
//	fast_lane ●   manual>* ●●◐○   done 7/15
func progress(now snapshot) string {
	var b strings.Builder
	for _, group := range now.groups {
		fmt.Fprintf(&b, "%s %s   ", group.Name, dots(group))
	}
	fmt.Fprintf(&b, "done %d/%d", now.ended(), len(now.runs))
	return b.String()
}

// dots returns a sign for each slot: running, claimed, open.
func dots(g phxworker.GroupStats) string {
	return strings.Repeat("●", g.Running) + strings.Repeat("◐", g.Claimed) + strings.Repeat("○", g.Open)
}

// plainLines writes a line when a run starts and one when it ends, for files and
// pipes.
type plainLines struct {
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

func (p *plainLines) show(now snapshot) {
	type line struct {
		at   time.Time
		text string
	}
	var lines []line
	for _, r := range now.runs {
		name, record := r.example.Name, r.record
		if p.shown[name] < started && !record.ClaimedAt.IsZero() {
			p.shown[name] = started
			lines = append(lines, line{record.ClaimedAt, fmt.Sprintf("start  %s, queue %s", name, record.Queue)})
		}
		if p.shown[name] < finished && r.ended() {
			p.shown[name] = finished
			lines = append(lines, line{record.FinishedAt, "end    " + name + ": " + ending(r)})
		}
	}
	slices.SortStableFunc(lines, func(a, b line) int { return a.at.Compare(b.at) })
	for _, l := range lines {
		fmt.Fprintln(p.out, l.text)
	}
}

func (p *plainLines) close() {}

// ending returns how a run ended: its reason, with what went wrong.
func ending(r run) string {
	if failure := r.failure(); failure != "" {
		return r.record.Reason + ", " + failure
	}
	return r.record.Reason
}
