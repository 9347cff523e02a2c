package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker"
	"github.com/phxworker/phxworker/claim"
	"github.com/phxworker/phxworker/cmd/phxworker/web"
	"github.com/phxworker/phxworker/runner"
	"github.com/phxworker/phxworker/slots"
)

func TestStatusOfAWorker(t *testing.T) {
	s := serveWorker(t, "--workloops", "fast_lane:1 manual>*:2")
	enqueue(t, s.upstream, "done", "fn(s => s)")
	wait(t, s.upstream, "done")
	s.stderr.await(t, "run complete")
	s.hold("0b8e6f0a-8a43-4f0d-9d6e-2b1c7a5e9f01")

	code, stdout, stderr := s.execute("status")
	require.Equal(t, exitOK, code, stderr)
	require.Empty(t, stderr)
	require.Regexp(t, `^Up, on the queue for .*, claiming\.\n`, stdout)
	require.Regexp(t, `manual>\* +2 +1 `, stdout)
	require.Regexp(t, `0b8e6f0a-8a43-4f0d-9d6e-2b1c7a5e9f01  manual>\*  .*\n  executing for .*, job a`, stdout)
	require.Regexp(t, `done +success`, stdout)
	require.Contains(t, stdout, "in all: 1 success")
	for line := range strings.Lines(stdout) {
		require.LessOrEqual(t, utf8.RuneCountInString(line), 80+len("\n"))
	}

	code, stdout, _ = s.execute("status", "--json")
	require.Equal(t, exitOK, code)
	var status web.Status
	require.NoError(t, json.Unmarshal([]byte(stdout), &status))
	require.True(t, status.Ready)
	require.Equal(t, s.upstream.URL(), status.Connection.Server)

	_, stdout, _ = s.execute("cancel", "0b8e6f0a-8a43-4f0d-9d6e-2b1c7a5e9f01")
	require.Contains(t, stdout, "is being cancelled")
	require.Equal(t, "cancel", wait(t, s.upstream, "0b8e6f0a-8a43-4f0d-9d6e-2b1c7a5e9f01").Reason)
}

// What answers may be anything, and must not steer the terminal, get the token or
// be taken for a worker.
func TestWhatIsNoWorkerIsNotTakenForOne(t *testing.T) {
	var asked []string
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { asked = append(asked, r.URL.Path) }))
	defer elsewhere.Close()
	tests := []struct {
		name   string
		answer http.HandlerFunc
		want   string
	}{
		{"a page", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) }, "is not a phxworker (it answered 200); give the address of one with --url\n"},
		{"other JSON", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{}`)) }, "is not a phxworker (it answered 200)"},
		{"an error", http.NotFound, "is not a phxworker (it answered 404)"},
		{"a redirect", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, elsewhere.URL, http.StatusFound) }, "is not a phxworker (it answered 302)"},
		{"an error of its own", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusNotFound)
			_, _ = w.Write([]byte(`{"error":"no such page"}`))
		}, "is not a phxworker (it answered 404)"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			server := httptest.NewServer(tt.answer)
			defer server.Close()
			code, stdout, stderr := execute(t.Context(), nil, "status", "--url", server.URL)
			require.Equal(t, exitFailure, code)
			require.Empty(t, stdout)
			require.Contains(t, stderr, tt.want)
		})
	}
	require.Empty(t, asked)
}

func TestARefusalDoesNotSteerTheTerminal(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusTeapot)
		_, _ = w.Write([]byte(`{"error":"\u001b[2Jgone"}`))
	}))
	defer server.Close()
	code, _, stderr := execute(t.Context(), nil, "pause", "--url", server.URL)
	require.Equal(t, exitFailure, code)
	require.Equal(t, "phxworker: \uFFFD[2Jgone\n", stderr)
}

// Guards against a run that reads as a success and that the server knows nothing of,
// and against "in all:" with nothing behind it.
func TestHowRunsEndedInATerminal(t *testing.T) {
	var out strings.Builder
	require.NoError(t, writeStatus(&out, &web.Status{Stats: phxworker.Stats{
		Groups: []phxworker.GroupStats{{Name: "manual>*", Counts: slots.Counts{Size: 3, Open: 3}, Paused: true, OnRequest: true}},
		Results: []phxworker.RunResult{
			{Outcome: runner.Outcome{RunID: "one", Reason: "success", Settled: runner.Undelivered}},
			{Outcome: runner.Outcome{RunID: "two", Settled: runner.Postponed}},
			{Outcome: runner.Outcome{RunID: "three", Settled: runner.LeaseLost}},
			{Outcome: runner.Outcome{RunID: "four", Reason: "fail", Type: "JobError", Settled: runner.Processed}},
		},
		Ended: map[phxworker.Reason]int{"success": 1, "fail": 1}, Returned: 1, Undelivered: 1,
	}}))
	for _, want := range []string{`one +success, server not told `, `two +returned to the queue `, `three +another worker's `, `four +fail JobError `} {
		require.Regexp(t, want, out.String())
	}
	require.Contains(t, out.String(), "in all: 1 fail, 1 success, 1 returned to the queue, server not told of 1\n")
	require.Regexp(t, `SLOTS +RUNNING +ASKING +OPEN`, out.String())
	require.Regexp(t, `manual>\* +3 +0 +0 +3 +0 +0 +claims on request`, out.String())

	out.Reset()
	require.NoError(t, writeStatus(&out, &web.Status{Stats: phxworker.Stats{Results: []phxworker.RunResult{{Outcome: runner.Outcome{RunID: "two", Settled: runner.LeaseLost}}}}}))
	require.NotContains(t, out.String(), "in all")
}

// Guards against a reason that pushes the times out of the terminal, and against a pipe that gets less than there is.
func TestALongReasonLeavesTheTimesOnTheScreen(t *testing.T) {
	results := []phxworker.RunResult{{Outcome: runner.Outcome{
		RunID: "0b8e6f0a-8a43-4f0d-9d6e-2b1c7a5e9f01", Reason: "exception", Type: "CredentialLoadError", Settled: runner.Processed,
		Ended: time.Date(2026, 11, 22, 16, 55, 1, 0, time.Local),
	}}}
	var out strings.Builder
	writeResults(&out, results, 80)
	require.Regexp(t, `(?m)^0b8e6f0a-8a43-4f0d-9d6e-2b1c7a5e9f01  exception CredentialL.*…  .*  16:55:01$`, out.String())
	for line := range strings.Lines(out.String()) {
		require.LessOrEqual(t, utf8.RuneCountInString(line), 80+len("\n"))
	}
	out.Reset()
	require.NoError(t, writeStatus(&out, &web.Status{Stats: phxworker.Stats{Results: results}}))
	require.Regexp(t, `exception CredentialLoadError  .*  16:55:01\n`, out.String())
}

// Guards against columns that end with the first run, and against refusals that only
// the page tells of.
func TestTheTablesOfAStatusKeepTheirColumns(t *testing.T) {
	var out strings.Builder
	executing := func(id, group, job string) runner.Progress {
		return runner.Progress{RunID: id, Group: group, Phase: runner.Executing, Job: job}
	}
	require.NoError(t, writeStatus(&out, &web.Status{Stats: phxworker.Stats{
		Groups: []phxworker.GroupStats{
			{Name: "fast_lane", Counts: slots.Counts{Size: 1}}, {Name: "manual>*", Counts: slots.Counts{Size: 2}, Stats: claim.Stats{Refused: 2}},
		},
		Runs: []phxworker.RunStats{
			{Progress: executing("a-run", "manual>*", "a"), Age: 12, InPhase: 11},
			{Progress: executing("another-run", "fast_lane", "b"), Age: 3, InPhase: 3},
		},
	}}))
	require.Contains(t, out.String(), `
GROUP      SLOTS  RUNNING  ASKING  OPEN  CLAIMS  FAILED
fast_lane  1      0        0       0     0       0
manual>*   2      0        0       0     0       0
manual>*: 2 runs refused because of a bad token.

UNDER WAY    GROUP      AGE
a-run        manual>*   12 s
  executing for 11 s, job a
another-run  fast_lane  3.0 s
  executing for 3.0 s, job b
`)
}

func TestAStatusThatIsNotReadyIsShownAndFails(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(web.Status{
			Summary: "Not connected yet, 7 attempts failed.", NotReady: "the queue was not joined in the 20 s since the start",
			Stats: phxworker.Stats{
				Phase: phxworker.PhaseRunning, Connection: phxworker.ConnectionStats{Error: "connection refused"},
				Runs: []phxworker.RunStats{{Progress: runner.Progress{RunID: strings.Repeat("long-", 40), Group: "manual>*", Phase: "executing", Job: "\x1b[31m"}}},
			},
		})
	}))
	defer server.Close()
	code, stdout, stderr := execute(t.Context(), nil, "status", "--url", server.URL)
	require.Equal(t, exitFailure, code)
	require.Equal(t, "phxworker: not ready: the queue was not joined in the 20 s since the start\n", stderr)
	require.Contains(t, stdout, "Not connected yet, 7 attempts failed.\nconnection refused\n")
	require.Contains(t, stdout, "long-long-…  manual>*  0 s\n")
	require.NotContains(t, stdout, "\x1b")
}
