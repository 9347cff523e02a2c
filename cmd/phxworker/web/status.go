package web

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/phxworker/phxworker"
	"github.com/phxworker/phxworker/runner"
)

// Status is a worker at one moment, as GET /status shows it. Fields and values may be
// added; those that are there keep their names and meanings from the first release on. Texts
// for people (summary, not_ready, error) may change.
type Status struct {
	// Summary is one sentence: whether it claims, or why not.
	Summary string `json:"summary"`
	// Health is "good", "attention" when a person wanted it otherwise or it is
	// new, and "bad" when it cannot work.
	Health Health `json:"health"`
	// Ready is what /readyz tells, and NotReady its reason.
	Ready    bool   `json:"ready"`
	NotReady string `json:"not_ready,omitempty"`
	// Stats are the worker's own.
	phxworker.Stats

	// Fences are those of the kernel around the engine's processes, up or not; empty for an
	// engine that has no such processes, and until they were tried.
	Fences  []Fence `json:"fences"`
	Process Process `json:"process"`
}

// Health is how a worker fares.
type Health string

// The values of Health.
const (
	Good      Health = "good"
	Attention Health = "attention"
	Bad       Health = "bad"
)

// Fence is one that the kernel has around the processes of an engine, or has not.
type Fence struct {
	Name string `json:"name"`
	Up   bool   `json:"up"`
	Why  string `json:"why,omitempty"` // it is not up
}

// Process is the program.
type Process struct {
	Version  string            `json:"version"`
	Commit   string            `json:"commit,omitempty"`
	Go       string            `json:"go"`
	Platform string            `json:"platform"` // as linux/amd64
	Hostname string            `json:"hostname"`
	PID      int               `json:"pid"`
	Started  time.Time         `json:"started"`
	Uptime   phxworker.Seconds `json:"uptime_seconds"`
}

func (s *Server) serveStatus(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, s.status())
}

// writeJSON answers with JSON, in lines: people read it in terminals.
func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	_ = enc.Encode(v) // else the client has gone
}

// status returns the worker at this moment.
func (s *Server) status() Status {
	stats := s.worker.Stats()
	reason := notReady(&stats)
	status := Status{
		Ready: reason == "", NotReady: reason, Stats: stats, Fences: []Fence{},
		Process: Process{
			Version: s.cfg.Version, Commit: s.cfg.Commit, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
			Hostname: s.hostname, PID: os.Getpid(), Started: s.started.UTC(),
			Uptime: phxworker.Seconds(time.Since(s.started).Round(time.Millisecond).Seconds()),
		},
	}
	if s.cfg.Fences != nil {
		status.Fences = append(status.Fences, s.cfg.Fences()...)
	}
	status.Health, status.Summary = status.verdict()
	return status
}

// Doing says in words what a run does now, which answers why it takes so long.
func Doing(run phxworker.RunStats) string {
	doing := fmt.Sprintf("%s for %s", run.Phase, run.InPhase)
	switch run.Phase {
	case runner.Joining:
		doing += ", the server has not let it onto its topic yet"
	case runner.Loading:
		doing += ", fetching plan, dataclip and credentials"
	case runner.Preparing:
		doing += ", getting the adaptors ready"
	}
	switch {
	case run.JobName != "" && run.JobName != run.Job:
		doing += fmt.Sprintf(", job %s (%s)", run.JobName, run.Job)
	case run.Job != "":
		doing += ", job " + run.Job
	}
	if run.Unacknowledged > 0 {
		doing += ", " + count(run.Unacknowledged, "event") + " unacknowledged"
	}
	return doing
}

// elsewhere says in words what became of a run that did not end here; empty for others.
func elsewhere(result phxworker.RunResult) string {
	switch {
	case result.Settled.InQueue():
		return "returned to the queue"
	case result.Settled == runner.LeaseLost:
		return "another worker's"
	}
	return ""
}

func isUndelivered(result phxworker.RunResult) bool { return result.Settled == runner.Undelivered }

// Ending says in words how a run ended.
func Ending(result phxworker.RunResult) string {
	if elsewhere := elsewhere(result); elsewhere != "" {
		return elsewhere
	}
	ending := string(result.Reason)
	if result.Type != "" {
		ending += " " + result.Type
	}
	if isUndelivered(result) {
		ending += ", server not told"
	}
	return ending
}

// Remark says in words why a group does not claim by itself; empty if it does.
func Remark(group phxworker.GroupStats) string {
	switch {
	case group.OnRequest:
		return "claims on request"
	case group.Paused:
		return "paused"
	}
	return ""
}

// Note says in a sentence or two what a group did not take; empty if it took all.
func Note(group phxworker.GroupStats) string {
	var notes []string
	if group.HeldBack > 0 {
		notes = append(notes, count(toInt(group.HeldBack), "claim")+" held back by the gate.")
	}
	if group.Refused > 0 {
		notes = append(notes, count(toInt(group.Refused), "run")+" refused because of a bad token.")
	}
	return strings.Join(notes, " ")
}

// whyUnable says it in a sentence without its full stop.
func whyUnable(u phxworker.UnableStats) string {
	if !u.Trial && u.Next == 0 { // it is being asked just now, perhaps for the first time
		return u.Error
	}
	what := "the engine cannot execute runs"
	switch u.Name {
	case phxworker.BreakerKey:
		what = "runs cannot be verified"
	case phxworker.BreakerServer:
		what = "the server does not take the runs of this worker"
	}
	next := "the next run shows whether it still is so"
	if !u.Trial {
		next = fmt.Sprintf("tried again in %s", u.Next)
	}
	return fmt.Sprintf("%s for %s (%s): %s", what, u.For, next, u.Error)
}
