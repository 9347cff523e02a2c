package web

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/phxworker/phxworker"
	"github.com/phxworker/phxworker/runner"
)

const (
	// samplePace is how often a worker is looked at for its last hour, which is maxPoints long.
	samplePace = 15 * time.Second
	maxPoints  = 240
	// maxFailures is how many failures are remembered.
	maxFailures = 20
	// watchBuffer is how many ends of runs may come between two looks at them.
	watchBuffer = 1000
)

// point is a worker at a moment of its last hour.
type point struct {
	Slots, Running int
	Ended          int // runs so far
}

// history is what is remembered of a worker's last hour.
type history struct {
	mu       sync.Mutex // guards what follows
	points   []point    // one each samplePace, the oldest first
	failures []phxworker.RunResult
	missed   int // events of any kind that came too fast to be seen, ends of runs perhaps among them
}

// Watch remembers the last hour of the worker for the page, until ctx ends. [Server.Serve] does so by itself; a program
// that mounts the server as a handler calls it, in a goroutine of its own.
func (s *Server) Watch(ctx context.Context) {
	events := s.worker.Subscribe(watchBuffer)
	defer events.Close()
	ticker := time.NewTicker(samplePace)
	defer ticker.Stop()
	s.history.sample(s.worker.Stats())
	for ended := events.Events(); ; {
		select {
		case event, more := <-ended:
			if !more { // the worker has stopped
				ended = nil
			}
			s.history.note(event)
		case <-ticker.C:
			s.history.sample(s.worker.Stats())
		case <-ctx.Done():
			return
		}
	}
}

func (h *history) sample(stats phxworker.Stats) {
	var p point
	for _, g := range stats.Groups {
		p.Slots += g.Size
		p.Running += g.Running
	}
	for _, n := range stats.Ended {
		p.Ended += n
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.points = append(h.points, p)
	h.points = h.points[max(len(h.points)-maxPoints, 0):]
}

// note remembers a run that failed.
func (h *history) note(event phxworker.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.missed += event.Missed
	if event.Result == nil || event.Result.Reason == "" || event.Result.Reason == runner.Success {
		return
	}
	failed := *event.Result
	failed.Message, failed.Err = "", nil // may quote the data of the run
	h.failures = append([]phxworker.RunResult{failed}, h.failures[:min(len(h.failures), maxFailures-1)]...)
}

// hour is the last hour as it is drawn.
type hour struct {
	Known          bool
	Sentence       string
	Slots, Running string // points of two lines
	Failures       []phxworker.RunResult
	Missed         int
}

// The last hour is drawn in a field of so many units.
const hourWidth, hourHeight = maxPoints, 30.0

func (h *history) hour() hour {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := hour{Failures: append([]phxworker.RunResult(nil), h.failures...), Missed: h.missed}
	if len(h.points) < 2 {
		return out
	}
	most, running := 1, 0
	for _, p := range h.points {
		most, running = max(most, p.Slots, p.Running), max(running, p.Running)
	}
	var slots, lines strings.Builder
	for i, p := range h.points {
		x := hourWidth - len(h.points) + i + 1
		fmt.Fprintf(&slots, "%d,%.1f ", x, hourHeight-(hourHeight-2)*float64(p.Slots)/float64(most)-1)
		fmt.Fprintf(&lines, "%d,%.1f ", x, hourHeight-(hourHeight-2)*float64(p.Running)/float64(most)-1)
	}
	first, last := h.points[0], h.points[len(h.points)-1]
	span := time.Duration(len(h.points)-1) * samplePace
	out.Known, out.Slots, out.Running = true, slots.String(), lines.String()
	out.Sentence = fmt.Sprintf("In the last %s, %s ended; %d at a time at most, of %d slots.", phxworker.Seconds(span.Seconds()), count(last.Ended-first.Ended, "run"), running, last.Slots)
	return out
}
