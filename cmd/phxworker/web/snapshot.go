package web

import (
	"encoding/json"
	"net/http"
	"os"
	"runtime"
	"time"

	"github.com/phxworker/phxworker"
	"github.com/phxworker/phxworker/internal/fence"
)

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
	stats, now := s.worker.Stats(), time.Now()
	reason := s.notReady(stats, now)
	status := Status{
		Ready: reason == "", NotReady: reason, Phase: stats.Phase.String(),
		Connection: s.connection(stats.Socket),
		Queue:      Queue{Joined: stats.Queue.Joined, Since: stats.Queue.Since},
		Unable:     unable(stats.Breakers, now),
		Groups:     make([]Group, 0, len(stats.Groups)),
		Runs:       make([]Run, 0, len(stats.Runs)),
		Results:    make([]Result, 0, len(stats.Results)),
		Ended:      make(map[string]int), Undelivered: stats.Undelivered,
		Delivery: Delivery{
			EventsResent: stats.Delivery.Resent, LogLinesShortened: stats.Delivery.LogsShortened, EventsUndelivered: stats.Delivery.Undelivered,
			EnginePanics: stats.Delivery.Panics, EnginesStuck: stats.Delivery.Stuck, EnginesStuckNow: stats.Delivery.StuckNow,
			AcknowledgementMS: milliseconds(mean(stats.Delivery.Acknowledged)),
		},
		Times: Times{
			Run:          seconds(mean(stats.RunSeconds)),
			ClaimToStart: seconds(mean(stats.ClaimToStart)),
			WakeToStart:  seconds(mean(stats.WakeToStart)),
		},
		Process: Process{
			Version: s.cfg.Version, Commit: s.cfg.Commit, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
			Hostname: s.hostname, PID: os.Getpid(), Started: s.started.UTC(), UptimeSeconds: seconds(now.Sub(s.started)),
		},
	}
	status.Fences = []fence.State{}
	if s.cfg.Fences != nil {
		status.Fences = append(status.Fences, s.cfg.Fences()...)
	}
	if !stats.Queue.Since.IsZero() {
		status.Queue.Since = stats.Queue.Since.UTC()
		status.Queue.ForSeconds = seconds(now.Sub(stats.Queue.Since))
	}
	for _, group := range stats.Groups {
		status.Groups = append(status.Groups, s.group(group))
	}
	for _, run := range stats.Runs {
		status.Runs = append(status.Runs, Run{
			ID: run.RunID, Group: run.Group, AgeSeconds: seconds(now.Sub(run.Claimed)),
			Phase: string(run.Phase), PhaseSeconds: seconds(now.Sub(run.Since)),
			Job: run.Job, Started: run.Started.UTC(), Unacknowledged: run.Unacknowledged,
		})
	}
	for _, result := range stats.Results {
		status.Results = append(status.Results, resultOf(result))
	}
	for reason, n := range stats.Ended {
		status.Ended[string(reason)] = n
	}
	for settled, n := range stats.Delivery.Settled {
		if settled.InQueue() {
			status.Returned += n
		}
	}
	status.Health, status.Summary = status.verdict()
	return status
}

// resultOf leaves out how a run fared that ended elsewhere: that is for who reports
// it.
func resultOf(r phxworker.RunResult) Result {
	result := Result{
		ID: r.RunID, Group: r.Group, Settled: r.Settled,
		TookSeconds: seconds(r.Ended.Sub(r.Claimed)), Ended: r.Ended.UTC(),
	}
	if result.Elsewhere() == "" {
		result.Reason, result.ErrorType, result.Undelivered = string(r.Reason), r.Type, r.Err != nil
	}
	return result
}

func (s *Server) connection(socket phxworker.SocketStats) Connection {
	c := Connection{
		Server: s.cfg.Upstream, Attempts: socket.Attempts, Connections: socket.Connections,
		Lost: make(map[string]uint64), RoundTripMS: milliseconds(socket.RoundTrip), Sockets: socket.Open,
	}
	if socket.Open > 0 || socket.Connections > 0 || socket.Err != nil {
		c.State = socket.State.String()
	}
	if socket.Err != nil {
		c.Error = socket.Err.Error()
	}
	for cause, n := range socket.Lost {
		c.Lost[string(cause)] = n
	}
	return c
}

func (s *Server) group(g phxworker.GroupStats) Group {
	return Group{
		Name: g.Name, Queues: g.Queues, Paused: g.Paused, OnRequest: g.Paused && s.cfg.Manual,
		Slots: g.Size, Open: g.Open, Claimed: g.Claimed, Running: g.Running,
		Claims:   Claims{Run: g.Claims.Brought, Empty: g.Claims.Empty, Error: g.Claims.Failed},
		HeldBack: g.Claims.HeldBack, Wakes: g.Claims.Wakes, Refused: g.Claims.Refused,
		ClaimMS: milliseconds(mean(g.ClaimSeconds)),
	}
}

// mean returns the average of what was counted, 0 of nothing.
func mean(h phxworker.Histogram) time.Duration {
	if h.Count == 0 {
		return 0
	}
	return time.Duration(h.Sum / float64(h.Count) * float64(time.Second))
}

// seconds and milliseconds return what a person would write down.
func seconds(d time.Duration) Seconds {
	return Seconds(float64(max(d, 0).Round(100*time.Microsecond).Microseconds()) / 1e6)
}

func milliseconds(d time.Duration) float64 {
	return float64(d.Round(10*time.Microsecond)) / float64(time.Millisecond)
}
