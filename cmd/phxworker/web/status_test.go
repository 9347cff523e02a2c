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
	"github.com/phxworker/phxworker/channel"
	"github.com/phxworker/phxworker/claim"
	"github.com/phxworker/phxworker/mockserver/fault"
	"github.com/phxworker/phxworker/runner"
	"github.com/phxworker/phxworker/slots"
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
		h := start(t, phxworker.Config{Groups: slots.MustParse("fast_lane:1 manual>*:2")}, Config{Version: "v1.2.3", Commit: "abcdef0"})
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
		require.Equal(t, phxworker.PhaseRunning, s.Phase)
		require.Equal(t, "Up, on the queue for 1 min 4 s. Busy: manual>*. Claiming: fast_lane.", s.Summary)
		require.Equal(t, phxworker.ConnectionStats{Server: "ws://lightning.test/worker", State: "connected", Connections: 1, Lost: map[channel.Cause]uint64{}, Sockets: 1}, s.Connection)
		require.True(t, s.Queue.Joined)
		require.InDelta(t, 64, float64(s.Queue.For), 0.001)

		require.Len(t, s.Groups, 2)
		require.Equal(t, "fast_lane", s.Groups[0].Name)
		require.Equal(t, 1, s.Groups[0].Open)
		manual := s.Groups[1]
		require.Equal(t, []string{"manual", "*"}, manual.Queues)
		require.Equal(t, 2, manual.Size)
		require.Equal(t, 2, manual.Running)
		require.Equal(t, uint64(3), manual.Claims.Brought)

		require.Len(t, s.Runs, 2)
		for _, run := range s.Runs {
			require.Equal(t, runner.Executing, run.Phase)
			require.Equal(t, "manual>*", run.Group)
			require.InDelta(t, 60, float64(run.Age), 0.001)
			require.False(t, run.Started.IsZero())
		}
		require.Len(t, s.Results, 1)
		require.Equal(t, "done", s.Results[0].RunID)
		require.Equal(t, runner.Success, s.Results[0].Reason)
		require.InDelta(t, 3, float64(s.Results[0].Lasted), 0.001)
		require.Equal(t, map[phxworker.Reason]int{"success": 1}, s.Ended)
		require.Equal(t, "v1.2.3", s.Process.Version)
		require.InDelta(t, 64, float64(s.Process.Uptime), 0.001)
	})
}

func TestFencesThatAreNotKnownYetAreNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t, phxworker.Config{}, Config{Fences: func() []Fence { return nil }})
		require.Contains(t, h.ask("GET", "/status", "").body, `"fences": []`)
	})
}

// The names are a promise: dashboards and scripts read them.
func TestTheNamesInTheStatusStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t, phxworker.Config{}, Config{Fences: func() []Fence { return []Fence{{Name: "files", Why: "it rains"}} }})
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
		require.ElementsMatch(t, []string{"summary", "health", "ready", "phase", "connection", "queue", "unable", "groups", "runs", "results", "ended", "undelivered", "returned", "delivery", "times", "extensions_off", "fences", "process"}, names(status))
		require.Equal(t, map[string]any{"name": "files", "up": false, "why": "it rains"}, first(status["fences"]))
		require.ElementsMatch(t, []string{"server", "state", "attempts", "connections", "lost", "round_trip_seconds", "sockets"}, names(status["connection"]))
		require.ElementsMatch(t, []string{"joined", "since", "for_seconds", "joins", "extensions", "unknown_pushes"}, names(status["queue"]))
		require.ElementsMatch(t, []string{"name", "queues", "paused", "slots", "open", "claimed", "running", "claims", "held_back", "wakes", "wakes_coalesced", "refused", "claim_seconds", "state", "started", "prefetched", "prefetch_returned", "held"}, names(first(status["groups"])))
		require.ElementsMatch(t, []string{"run", "empty", "error", "empty_woken", "exhausted"}, names(first(status["groups"]).(map[string]any)["claims"]))
		require.ElementsMatch(t, []string{"id", "group", "age_seconds", "phase", "phase_since", "phase_seconds", "claimed", "started", "unacknowledged"}, names(first(status["runs"])))
		require.ElementsMatch(t, []string{"id", "group", "reason", "took_seconds", "claimed", "started", "ended", "settled"}, names(first(status["results"])))
		require.ElementsMatch(t, []string{"events_resent", "log_lines_shortened", "events_undelivered", "engine_panics", "engines_stuck", "engines_stuck_now", "leases_renewed", "leases_lost", "unknown_pushes", "settled", "acknowledgement_seconds"}, names(status["delivery"]))
		require.ElementsMatch(t, []string{"run_seconds", "claim_to_start_seconds", "wake_to_start_seconds"}, names(status["times"]))
		require.ElementsMatch(t, []string{"version", "go", "platform", "hostname", "pid", "started", "uptime_seconds"}, names(status["process"]))
	})
}

func TestWhatARunDoesInWords(t *testing.T) {
	for want, tt := range map[string]struct {
		progress runner.Progress
		span     phxworker.Seconds
	}{
		"joining for 0 s, the server has not let it onto its topic yet": {runner.Progress{Phase: "joining"}, 0},
		"loading for 120 ms, fetching plan, dataclip and credentials":   {runner.Progress{Phase: "loading"}, 0.12},
		"preparing for 12 s, getting the adaptors ready":                {runner.Progress{Phase: "preparing"}, 12},
		"executing for 2.0 s, job a, 1 event unacknowledged":            {runner.Progress{Phase: "executing", Job: "a", Unacknowledged: 1}, 2},
		"executing for 2 min 0 s":                                       {runner.Progress{Phase: "executing"}, 120},
		"reporting for 1 h 1 min, 3 events unacknowledged":              {runner.Progress{Phase: "reporting", Unacknowledged: 3}, 3660},
	} {
		require.Equal(t, want, Doing(phxworker.RunStats{Progress: tt.progress, InPhase: tt.span}))
	}
}

// Guards against a worker that is ready, and claiming, while the server answers none of its claims.
func TestAWorkerWhoseClaimsFailSaysSo(t *testing.T) {
	for name, rule := range map[string]fault.Rule{
		"refused":    {Action: fault.Refuse, Response: json.RawMessage(`{"errors":{"demand":["no"]}}`)},
		"crashed":    {Action: fault.Crash},
		"unanswered": {Action: fault.Withhold, When: fault.Before},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := build(t, phxworker.Config{Groups: slots.MustParse("manual>*:1")}, Config{})
				rule.Event, rule.Count = "claim", -1
				_, err := h.upstream.AddFault(rule)
				require.NoError(t, err)
				h.begin()
				settle(10 * time.Second)
				require.Equal(t, http.StatusOK, h.ask("GET", "/readyz", "").status, "that may pass")
				settle(2 * time.Minute)
				answer := h.ask("GET", "/readyz", "")
				require.Equal(t, http.StatusServiceUnavailable, answer.status)
				require.Contains(t, answer.body, "the server has answered no claim for 2 min")
				require.Contains(t, h.status().Summary, "the server has answered no claim for 2 min")
				require.Equal(t, Bad, h.status().Health)

				h.upstream.ClearFaults()
				if name == "unanswered" {
					require.NoError(t, h.upstream.Restart(1012, time.Second))
				}
				settle(time.Minute)
				require.Equal(t, http.StatusOK, h.ask("GET", "/readyz", "").status)
				require.Equal(t, Good, h.status().Health)
			})
		})
	}
}

func TestSummaries(t *testing.T) {
	idle := phxworker.GroupStats{Name: "a", Counts: slots.Counts{Size: 1, Open: 1}}
	full := phxworker.GroupStats{Name: "b", Counts: slots.Counts{Size: 1, Running: 1}}
	paused := phxworker.GroupStats{Name: "c", Paused: true, Counts: slots.Counts{Size: 1, Open: 1}}
	request := phxworker.GroupStats{Name: "e", Paused: true, OnRequest: true, Counts: slots.Counts{Size: 1, Open: 1}}
	joined := phxworker.QueueStats{Joined: true, For: 60}
	away := phxworker.QueueStats{For: 30}
	ill := []phxworker.UnableStats{{Name: "engine", Error: "no space left in /repo", For: 60, Next: 40}}
	tests := []struct {
		name   string
		ready  bool
		stats  phxworker.Stats
		health Health
		want   string
	}{
		{"silent, and a bad token", false, phxworker.Stats{Phase: "running", Queue: joined, Groups: []phxworker.GroupStats{{
			Name: "a", Counts: slots.Counts{Size: 1, Open: 1}, Stats: claim.Stats{Refused: 1, Failing: time.Now().Add(-2 * time.Minute)},
		}}}, Bad, "Up, on the queue for 1 min 0 s, claiming. But the server has answered no claim for 2 min 0 s; the worker's log says more. But it refused 1 run because of a bad token."},
		{"unable", false, phxworker.Stats{Phase: "running", Queue: joined, Unable: ill, Groups: []phxworker.GroupStats{idle}}, Bad, "Claims nothing: the engine cannot execute runs for 1 min 0 s (tried again in 40 s): no space left in /repo."},
		{"refused", false, phxworker.Stats{Phase: "running", Queue: joined, Unable: []phxworker.UnableStats{{Name: "server", Error: "no", Next: 40}}}, Bad, "Claims nothing: the server does not take the runs of this worker for 0 s (tried again in 40 s): no."},
		{"tried", false, phxworker.Stats{Phase: "running", Queue: joined, Unable: []phxworker.UnableStats{{Name: "key", Error: "it does not fit", Trial: true}}}, Bad, "Claims nothing: runs cannot be verified for 0 s (the next run shows whether it still is so): it does not fit."},
		{"new", false, phxworker.Stats{Phase: "new"}, Attention, "Starting."},
		{"draining", false, phxworker.Stats{Phase: "draining", Runs: make([]phxworker.RunStats, 1)}, Attention, "Draining: claims no more, waits for 1 run to finish."},
		{"draining, with nothing left", false, phxworker.Stats{Phase: "draining"}, Attention, "Draining: claims no more, and no run is under way."},
		{"draining, with a claim unanswered", false, phxworker.Stats{Phase: "draining", Groups: []phxworker.GroupStats{{Name: "a", Counts: slots.Counts{Size: 1, Claimed: 1}}}}, Attention, "Draining: waits for the server to answer a claim, of which a run may come."},
		{"stopping, with a claim unanswered", false, phxworker.Stats{Phase: "stopping", Groups: []phxworker.GroupStats{{Name: "a", Counts: slots.Counts{Size: 1, Claimed: 1}}}}, Attention, "Stopping: waits for the server to answer a claim; a run that comes of it is not executed."},
		{"stopping", false, phxworker.Stats{Phase: "stopping", Runs: make([]phxworker.RunStats, 2)}, Attention, "Stopping: cancels 2 runs, and reports that."},
		{"on request", false, phxworker.Stats{Queue: joined, Groups: []phxworker.GroupStats{request}}, Good, "Up, on the queue for 1 min 0 s, claims when it is asked to."},
		{"stopped", false, phxworker.Stats{Phase: "stopped"}, Bad, "Stopped."},
		{"idle", false, phxworker.Stats{Queue: joined, Groups: []phxworker.GroupStats{idle}}, Good, "Up, on the queue for 1 min 0 s, claiming."},
		{"full", false, phxworker.Stats{Queue: joined, Groups: []phxworker.GroupStats{full}}, Good, "Up, on the queue for 1 min 0 s, and busy: all slots have runs."},
		{"bad tokens", false, phxworker.Stats{Queue: joined, Groups: []phxworker.GroupStats{idle, {Name: "f", Counts: slots.Counts{Size: 1, Open: 1}, Stats: claim.Stats{Refused: 2}}}}, Attention, "Up, on the queue for 1 min 0 s, claiming. But it refused 2 runs because of a bad token."},
		{"paused", false, phxworker.Stats{Queue: joined, Groups: []phxworker.GroupStats{paused}}, Attention, "Up, on the queue for 1 min 0 s, but paused: claims nothing until it is resumed."},
		{"some of each", false, phxworker.Stats{Queue: joined, Groups: []phxworker.GroupStats{idle, full, paused}}, Attention, "Up, on the queue for 1 min 0 s, but c is paused. Busy: b. Claiming: a."},
		{"lost", true, phxworker.Stats{Queue: away, Connection: phxworker.ConnectionStats{State: "connecting", Connections: 1, Attempts: 2}, Runs: make([]phxworker.RunStats, 2)}, Attention, "Connection lost, not on the queue for 30 s; 2 attempts failed. Meanwhile 2 runs are under way."},
		{"not on the queue", false, phxworker.Stats{Queue: away, Connection: phxworker.ConnectionStats{State: "connected", Connections: 1}}, Bad, "Connected, but not on the queue for 30 s."},
		{"just lost", true, phxworker.Stats{Queue: away, Connection: phxworker.ConnectionStats{State: "connecting", Connections: 1}}, Attention, "Connection lost, not on the queue for 30 s."},
		{"never connected", false, phxworker.Stats{Queue: away, Connection: phxworker.ConnectionStats{State: "connecting", Attempts: 1}}, Bad, "Not connected yet; 1 attempt failed."},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			status := Status{Ready: tt.ready, Stats: tt.stats}
			health, sentence := status.verdict()
			require.Equal(t, tt.health, health)
			require.Equal(t, tt.want, sentence)
		})
	}
}
