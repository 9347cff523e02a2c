package web

import (
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/phxworker/phxworker"
	"github.com/phxworker/phxworker/channel"
)

// lenience is how long a worker that has lost the queue is still ready: a
// reconnect takes seconds, and should not be worth an alarm.
const lenience = time.Minute

func (s *Server) livez(w http.ResponseWriter, _ *http.Request) { probe(w, "") }

func (s *Server) startupz(w http.ResponseWriter, _ *http.Request) {
	if s.worker.Stats().Phase == phxworker.PhaseNew {
		probe(w, "the worker has not begun")
		return
	}
	probe(w, "")
}

func (s *Server) readyz(w http.ResponseWriter, _ *http.Request) {
	stats := s.worker.Stats()
	probe(w, notReady(&stats))
}

// probe answers 200, or 503 with the reason.
func probe(w http.ResponseWriter, reason string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	if reason != "" {
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, reason+"\n") // else the client has gone
		return
	}
	_, _ = io.WriteString(w, "ok\n")
}

// unheard returns for how long the server has answered no claim; 0 if it has answered the latest of a group, or if no
// group puts any. One that is not answered for longer than lenience counts as one that has failed.
func unheard(groups []phxworker.GroupStats) (longest time.Duration) {
	for _, g := range groups {
		since := g.Failing
		if since.IsZero() && time.Since(g.Asked) > lenience {
			since = g.Asked
		}
		switch {
		case g.Paused, g.Open == 0 && g.Claimed == 0:
			continue
		case since.IsZero():
			return 0
		}
		longest = max(longest, time.Since(since))
	}
	return longest
}

func answersNone(unheard time.Duration) string {
	return fmt.Sprintf("the server has answered no claim for %s; the worker's log says more", phxworker.Seconds(unheard.Seconds()))
}

// notReady returns why the worker is not ready, empty if it is.
//
// A paused worker is ready, and so is one whose slots are all in use: both can do
// what they are there for, and are not asked to just now. If they were not, a
// pause would hold up a rollout and ring alarms that are meant for workers that
// cannot work.
func notReady(stats *phxworker.Stats) string {
	switch stats.Phase {
	case phxworker.PhaseNew:
		return "the worker has not begun"
	case phxworker.PhaseDraining:
		return "draining: the worker claims no more"
	case phxworker.PhaseStopping:
		return "stopping: the worker cancels its runs"
	case phxworker.PhaseStopped:
		return "the worker has stopped"
	}
	if len(stats.Unable) > 0 {
		return "claims nothing: " + whyUnable(stats.Unable[0])
	}
	unheard := unheard(stats.Groups)
	if unheard > lenience && stats.Connection.State == channel.Connected.String() { // each claim may cost it the queue, and only for a moment
		return answersNone(unheard)
	}
	if stats.Queue.Joined {
		return ""
	}
	var reason string
	switch {
	case stats.Queue.Joins == 0:
		reason = fmt.Sprintf("the queue was not joined in the %s since the start", stats.Queue.For)
	case stats.Queue.For <= phxworker.Seconds(lenience.Seconds()):
		return ""
	default:
		reason = fmt.Sprintf("the queue was lost %s ago", stats.Queue.For)
	}
	if stats.Connection.Error != "" {
		reason += ": " + stats.Connection.Error
	}
	return reason
}
