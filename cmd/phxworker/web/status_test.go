package web

import (
	"context"
	"encoding/json"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker"
	"github.com/phxworker/phxworker/internal/fence"
	"github.com/phxworker/phxworker/runner"
)

func TestProbesOverTheLifeOfAWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := build(t, phxworker.Config{}, Config{})
		expect := func(path string, status int, body string) {
			t.Helper()
			a := h.ask("GET", path, "")
			require.Equal(t, status, a.status, a.body)
			require.Equal(t, body, a.body)
		}
		expect("/livez", 200, "ok\n")
		expect("/startupz", 503, "the worker has not begun\n")
		expect("/readyz", 503, "the worker has not begun\n")

		h.begin()
		settle(time.Second)
		expect("/startupz", 200, "ok\n")
		expect("/readyz", 200, "ok\n")

		h.cut()
		settle(59 * time.Second)
		expect("/readyz", 200, "ok\n")
		settle(3 * time.Second)
		a := h.ask("GET", "/readyz", "")
		require.Equal(t, http.StatusServiceUnavailable, a.status)
		require.Regexp(t, `^the queue was lost 1 min \d s ago: .*\n$`, a.body)
		expect("/livez", 200, "ok\n")

		h.worker.Drain()
		<-h.ended
		expect("/readyz", 503, "the worker has stopped\n")
		expect("/startupz", 200, "ok\n")
		expect("/livez", 200, "ok\n")
	})
}

func TestAWorkerThatHasNeverJoinedIsNotReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := build(t, phxworker.Config{}, Config{})
		h.cut()
		h.begin()
		settle(5 * time.Second)
		a := h.ask("GET", "/readyz", "")
		require.Equal(t, http.StatusServiceUnavailable, a.status)
		require.Contains(t, a.body, "the queue was not joined in the 5.0 s since the start: ")
		s := h.status()
		require.Equal(t, Bad, s.Health)
		require.Equal(t, "connecting", s.Connection.State)
		require.Positive(t, s.Connection.Attempts)
		require.Positive(t, s.Connection.Lost["dial"])
		require.Contains(t, s.Summary, "Not connected yet")
		require.NotContains(t, h.ask("GET", "/status", "").body, "token")
	})
}

func TestAWorkerThatCannotExecuteIsNotReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var well atomic.Bool
		h := start(t, phxworker.Config{Engine: phxworker.Func(func(context.Context, *phxworker.Run) (any, error) {
			if well.Load() {
				return nil, nil
			}
			return nil, runner.Unable(&phxworker.Failure{Reason: runner.Exception, Type: "EngineError", Message: "no space left in /repo"})
		})}, withControls)
		require.Equal(t, http.StatusOK, h.ask("GET", "/readyz", "").status)
		h.enqueue("a")
		settle(2 * time.Second)
		a := h.ask("GET", "/readyz", "")
		require.Equal(t, http.StatusServiceUnavailable, a.status)
		require.Regexp(t, `^claims nothing: the engine cannot execute runs for .* \(tried again in .* s\): no space left in /repo\n$`, a.body)
		s := h.status()
		require.Equal(t, Bad, s.Health)
		require.Contains(t, s.Summary, "no space left in /repo.")
		require.Len(t, s.Unable, 1)
		require.Contains(t, h.ask("GET", "/", "").body, "no space left in /repo")
		require.Equal(t, http.StatusConflict, h.ask("POST", "/claim", "").status)

		well.Store(true)
		settle(time.Minute)
		require.Equal(t, http.StatusServiceUnavailable, h.ask("GET", "/readyz", "").status, "nobody knows yet")
		require.Contains(t, h.status().Summary, "the next run shows whether it still is so")
		h.enqueue("b")
		settle(11 * time.Second)
		require.Equal(t, http.StatusOK, h.ask("GET", "/readyz", "").status)
		require.Empty(t, h.status().Unable)
	})
}

func TestStatusTellsWhatAWorkerDoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t, phxworker.Config{Groups: "fast_lane:1 manual>*:2"}, Config{Upstream: "wss://lightning.test/worker", Version: "v1.2.3", Commit: "abcdef0"})
		h.enqueue("done")
		settle(0)
		settle(3 * time.Second)
		h.release("done")
		settle(0)
		h.enqueue("busy", "also", "waits")
		settle(time.Minute)

		s := h.status()
		require.True(t, s.Ready)
		require.Empty(t, s.NotReady)
		require.Equal(t, Good, s.Health)
		require.Equal(t, "running", s.Phase)
		require.Equal(t, "Up, on the queue for 1 min 4 s. Busy: manual>*. Claiming: fast_lane.", s.Summary)
		require.Equal(t, Connection{Server: "wss://lightning.test/worker", State: "connected", Connections: 1, Lost: map[string]uint64{}, Sockets: 1}, s.Connection)
		require.True(t, s.Queue.Joined)
		require.InDelta(t, 64, float64(s.Queue.ForSeconds), 0.001)

		require.Len(t, s.Groups, 2)
		require.Equal(t, "fast_lane", s.Groups[0].Name)
		require.Equal(t, 1, s.Groups[0].Open)
		manual := s.Groups[1]
		require.Equal(t, []string{"manual", "*"}, manual.Queues)
		require.Equal(t, 2, manual.Slots)
		require.Equal(t, 2, manual.Running)
		require.Equal(t, uint64(3), manual.Claims.Run)

		require.Len(t, s.Runs, 2)
		for _, run := range s.Runs {
			require.Equal(t, "executing", run.Phase)
			require.Equal(t, "manual>*", run.Group)
			require.InDelta(t, 60, float64(run.AgeSeconds), 0.001)
			require.False(t, run.Started.IsZero())
		}
		require.Len(t, s.Results, 1)
		require.Equal(t, "done", s.Results[0].ID)
		require.Equal(t, "success", s.Results[0].Reason)
		require.InDelta(t, 3, float64(s.Results[0].TookSeconds), 0.001)
		require.Equal(t, map[string]int{"success": 1}, s.Ended)
		require.Equal(t, "v1.2.3", s.Process.Version)
		require.InDelta(t, 64, float64(s.Process.UptimeSeconds), 0.001)
	})
}

func TestFencesThatAreNotKnownYetAreNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t, phxworker.Config{}, Config{Fences: func() []fence.State { return nil }})
		require.Contains(t, h.ask("GET", "/status", "").body, `"fences": []`)
	})
}

// The names are a promise: dashboards and scripts read them.
func TestTheNamesInTheStatusStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t, phxworker.Config{}, Config{Fences: func() []fence.State { return []fence.State{{Name: fence.Files, Why: "it rains"}} }})
		h.enqueue("done")
		settle(0)
		h.release("done")
		settle(0)
		h.enqueue("busy")
		settle(0)
		var status map[string]any
		require.NoError(t, json.Unmarshal([]byte(h.ask("GET", "/status", "").body), &status))
		names := func(v any) (out []string) {
			for name := range v.(map[string]any) {
				out = append(out, name)
			}
			return out
		}
		first := func(v any) any { return v.([]any)[0] }
		require.ElementsMatch(t, []string{"summary", "health", "ready", "phase", "connection", "queue", "unable", "groups", "runs", "results", "ended", "undelivered", "returned", "delivery", "times", "fences", "process"}, names(status))
		require.Equal(t, map[string]any{"name": "files", "up": false, "why": "it rains"}, first(status["fences"]))
		require.ElementsMatch(t, []string{"state", "attempts", "connections", "lost", "round_trip_ms", "sockets"}, names(status["connection"]))
		require.ElementsMatch(t, []string{"joined", "since", "for_seconds"}, names(status["queue"]))
		require.ElementsMatch(t, []string{"name", "queues", "paused", "slots", "open", "claimed", "running", "claims", "held_back", "wakes", "refused", "claim_ms"}, names(first(status["groups"])))
		require.ElementsMatch(t, []string{"run", "empty", "error"}, names(first(status["groups"]).(map[string]any)["claims"]))
		require.ElementsMatch(t, []string{"id", "group", "age_seconds", "phase", "phase_seconds", "started", "unacknowledged"}, names(first(status["runs"])))
		require.ElementsMatch(t, []string{"id", "group", "reason", "took_seconds", "ended", "settled"}, names(first(status["results"])))
		require.ElementsMatch(t, []string{"events_resent", "log_lines_shortened", "events_undelivered", "engine_panics", "engines_stuck", "engines_stuck_now", "acknowledgement_ms"}, names(status["delivery"]))
		require.ElementsMatch(t, []string{"run_seconds", "claim_to_start_seconds", "wake_to_start_seconds"}, names(status["times"]))
		require.ElementsMatch(t, []string{"version", "go", "platform", "hostname", "pid", "started", "uptime_seconds"}, names(status["process"]))
	})
}

func TestWhatARunDoesInWords(t *testing.T) {
	for want, run := range map[string]Run{
		"joining for 0 s, the server has not let it onto its topic yet": {Phase: "joining"},
		"loading for 120 ms, fetching plan, dataclip and credentials":   {Phase: "loading", PhaseSeconds: 0.12},
		"preparing for 12 s, getting the adaptors ready":                {Phase: "preparing", PhaseSeconds: 12},
		"executing for 2.0 s, job a, 1 event unacknowledged":            {Phase: "executing", Job: "a", PhaseSeconds: 2, Unacknowledged: 1},
		"executing for 2 min 0 s":                                       {Phase: "executing", PhaseSeconds: 120},
		"reporting for 1 h 1 min, 3 events unacknowledged":              {Phase: "reporting", PhaseSeconds: 3660, Unacknowledged: 3},
	} {
		require.Equal(t, want, run.Doing())
	}
}

func TestSecondsInWords(t *testing.T) {
	for want, s := range map[string]Seconds{
		"0 s": -1, "0.1 ms": 0.0001, "10 ms": 0.00996, "340 ms": 0.34, "1.0 s": 0.9996, "9.9 s": 9.94, "10 s": 9.96, "59 s": 59.4, "1 min 0 s": 59.6,
		"59 min 59 s": 3599, "1 h 0 min": 3600, "23 h 59 min": 86399, "4 d 2 h": 4*86400 + 2*3600,
	} {
		require.Equal(t, want, s.String())
	}
}

func TestSummaries(t *testing.T) {
	idle := Group{Name: "a", Slots: 1, Open: 1}
	full := Group{Name: "b", Slots: 1, Running: 1}
	paused := Group{Name: "c", Slots: 1, Open: 1, Paused: true}
	none := Group{Name: "d"}
	request := Group{Name: "e", Slots: 1, Open: 1, Paused: true, OnRequest: true}
	joined := Queue{Joined: true, ForSeconds: 60}
	away := Queue{ForSeconds: 30}
	ill := []Unable{{Name: "engine", Error: "no space left in /repo", ForSeconds: 60, NextSeconds: 40}}
	tests := []struct {
		name   string
		status Status
		health Health
		want   string
	}{
		{"unable", Status{Phase: "running", Queue: joined, Unable: ill, Groups: []Group{idle}}, Bad, "Claims nothing: the engine cannot execute runs for 1 min 0 s (tried again in 40 s): no space left in /repo."},
		{"tried", Status{Phase: "running", Queue: joined, Unable: []Unable{{Name: "key", Error: "it does not fit", Trial: true}}}, Bad, "Claims nothing: runs cannot be verified for 0 s (the next run shows whether it still is so): it does not fit."},
		{"new", Status{Phase: "new"}, Attention, "Starting."},
		{"draining", Status{Phase: "draining", Runs: make([]Run, 1)}, Attention, "Draining: claims no more, waits for 1 run to finish."},
		{"draining, with nothing left", Status{Phase: "draining"}, Attention, "Draining: claims no more, and no run is under way."},
		{"draining, with a claim unanswered", Status{Phase: "draining", Groups: []Group{{Name: "a", Slots: 1, Claimed: 1}}}, Attention, "Draining: waits for the server to answer a claim, of which a run may come."},
		{"stopping", Status{Phase: "stopping", Runs: make([]Run, 2)}, Attention, "Stopping: cancels 2 runs, and reports that."},
		{"without slots", Status{Queue: joined, Groups: []Group{full, none}}, Good, "Up, on the queue for 1 min 0 s, and busy: all slots have runs."},
		{"on request", Status{Queue: joined, Groups: []Group{request, none}}, Good, "Up, on the queue for 1 min 0 s, claims when it is asked to (--no-loop)."},
		{"stopped", Status{Phase: "stopped"}, Bad, "Stopped."},
		{"idle", Status{Queue: joined, Groups: []Group{idle}}, Good, "Up, on the queue for 1 min 0 s, claiming."},
		{"full", Status{Queue: joined, Groups: []Group{full}}, Good, "Up, on the queue for 1 min 0 s, and busy: all slots have runs."},
		{"bad tokens", Status{Queue: joined, Groups: []Group{idle, {Name: "f", Slots: 1, Open: 1, Refused: 2}}}, Attention, "Up, on the queue for 1 min 0 s, claiming. But it refused 2 runs because of a bad token."},
		{"paused", Status{Queue: joined, Groups: []Group{paused}}, Attention, "Up, on the queue for 1 min 0 s, but paused: claims nothing until it is resumed."},
		{"some of each", Status{Queue: joined, Groups: []Group{idle, full, paused}}, Attention, "Up, on the queue for 1 min 0 s, but c is paused. Busy: b. Claiming: a."},
		{"lost", Status{Queue: away, Ready: true, Connection: Connection{State: "connecting", Connections: 1, Attempts: 2}, Runs: make([]Run, 2)}, Attention, "Connection lost, not on the queue for 30 s; 2 attempts failed. Meanwhile 2 runs are under way."},
		{"not on the queue", Status{Queue: away, Connection: Connection{State: "connected", Connections: 1}}, Bad, "Connected, but not on the queue for 30 s."},
		{"just lost", Status{Queue: away, Ready: true, Connection: Connection{State: "connecting", Connections: 1}}, Attention, "Connection lost, not on the queue for 30 s."},
		{"never connected", Status{Queue: away, Connection: Connection{State: "connecting", Attempts: 1}}, Bad, "Not connected yet; 1 attempt failed."},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			health, sentence := tt.status.verdict()
			require.Equal(t, tt.health, health)
			require.Equal(t, tt.want, sentence)
		})
	}
}
