package web

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker"
	"github.com/phxworker/phxworker/channel"
	"github.com/phxworker/phxworker/mockserver"
	"github.com/phxworker/phxworker/runner"
	"github.com/phxworker/phxworker/slots"
)

func TestThePageShowsTheStatusAndLoadsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t, phxworker.Config{Groups: slots.MustParse("fast_lane:1 manual>*:50")}, Config{})
		h.enqueue("one", "two")
		settle(time.Minute)
		h.release("one")
		settle(time.Second)
		a := h.ask("GET", "/", "")
		require.Equal(t, "text/html; charset=utf-8", a.header.Get("Content-Type"))
		for _, want := range []string{`<html lang="en">`, "Up, on the queue for", "manual&gt;*", "ws://lightning.test/worker", ">two<", "executing for 1 min 1 s", `class="reason good">success<`, `http-equiv="refresh"`} {
			require.Contains(t, a.body, want)
		}
		policy := a.header.Get("Content-Security-Policy")
		require.Contains(t, policy, "default-src 'none'")
		require.NotContains(t, policy, "unsafe")
		for _, link := range []string{"http://", "https://", "src=", "@import", "url("} {
			require.NotContains(t, a.body, link)
		}
		require.NotContains(t, a.body, "ZgotmplZ", "html/template found something to distrust")
		require.Less(t, len(a.body), 20_000)
	})
}

func TestThePageEscapesWhatTheServerNames(t *testing.T) {
	const run = `<script>alert("run")</script>`
	synctest.Test(t, func(t *testing.T) {
		h := start(t, phxworker.Config{}, Config{Version: `"><img src=x onerror=alert(1)>`})
		h.enqueue(run, run+"2")
		settle(time.Second)
		require.Equal(t, "started", h.state(run))
		h.release(run)
		settle(time.Second)
		body := h.ask("GET", "/", "").body
		require.Equal(t, 1, strings.Count(body, "<script>"), "the page's own")
		require.NotContains(t, body, "<img")
		require.Equal(t, 2, strings.Count(body, "&lt;script&gt;alert(&#34;run&#34;)&lt;/script&gt;"))
		a := h.ask("GET", "/status", "")
		require.Equal(t, "application/json; charset=utf-8", a.header.Get("Content-Type"))
		require.Equal(t, run, h.status().Results[0].RunID)
	})
}

func TestFailedDialsAreNotConnectionsLost(t *testing.T) {
	for want, counts := range map[string]map[channel.Cause]uint64{
		"never":                                {"network": 0},
		"never; could not connect once":        {"dial": 1},
		"1 closed, 2 network":                  {"closed": 1, "network": 2},
		"1 network; could not connect 4 times": {"dial": 4, "network": 1},
	} {
		require.Equal(t, want, lost(counts))
	}
}

func TestThePageSaysWhereRunsEnded(t *testing.T) {
	var document bytes.Buffer
	require.NoError(t, newPage().write(&document, view{Status: Status{Stats: phxworker.Stats{
		Groups: []phxworker.GroupStats{
			{Name: "a", Counts: slots.Counts{Size: 1, Open: 1}},
			{Name: "b"},
			{Name: "c", Counts: slots.Counts{Size: 1}, Paused: true, OnRequest: true},
		},
		Results: []phxworker.RunResult{
			{Outcome: runner.Outcome{RunID: "one", Settled: runner.Requeued, Err: errUnanswered}},
			{Outcome: runner.Outcome{RunID: "two", Settled: runner.LeaseLost, Err: errUnanswered}},
			{Outcome: runner.Outcome{RunID: "three", Reason: runner.Success, Settled: runner.Undelivered, Err: errUnanswered}},
		},
		Returned: 1,
	}}}))
	page := document.String()
	for _, want := range []string{
		`>one</th><td><span class="reason">returned to the queue</span></td>`, `>two</th><td><span class="reason">another worker&#39;s</span></td>`,
		`<span class="reason good">success</span> <span class="tag">server not told</span>`, `<span class="count">1 returned to the queue</span>`,
		`claims on request</span>`, strings.Repeat(`<td class="n">0</td>`, 2) + `<td class="n">1</td>`,
	} {
		require.Contains(t, page, want)
	}
	require.NotContains(t, page, "exception")
}

// The last hour is remembered, with what failed in it long after other runs have pushed it from the last results; names stand
// beside ids.
func TestThePageRemembersAnHour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine := phxworker.Func(func(ctx context.Context, run *phxworker.Run) (any, error) {
			step := run.StartStep(run.Plan.Jobs[0].ID, nil)
			if run.ID == "held" {
				<-ctx.Done()
				return nil, context.Cause(ctx)
			}
			step.Complete(runner.StepResult{Reason: runner.Success, State: []byte(`{}`), Leaf: true})
			if run.ID == "bad" {
				return nil, &phxworker.Failure{Reason: runner.Fail, Type: "JobError", Message: "patient 4711"}
			}
			return map[string]any{}, nil
		})
		h := start(t, phxworker.Config{Engine: engine, Groups: slots.MustParse("manual>*:3")}, Config{ServerPage: "http://localhost:8888/"})
		queue := func(id string) {
			_, err := h.upstream.Enqueue(mockserver.Run{Plan: []byte(`{"id":"` + id + `","name":"Flow of ` + id + `","jobs":[{"id":"j","name":"Load patients","body":"x"}]}`)})
			require.NoError(t, err)
			settle(time.Second)
		}
		queue("bad")
		for i := range 25 {
			queue(fmt.Sprint("good-", i))
		}
		settle(2 * time.Hour)
		queue("held")
		settle(time.Minute)
		body := h.ask("GET", "/", "").body
		for _, want := range []string{
			"In the last 59 min 45 s, 0 runs ended; 1 at a time at most, of 3 slots.", `<polyline class="running" points="`,
			"Failed last", `bad <span class="named">Flow of bad</span>`, "</span> JobError", "Flow of held", "job Load patients (j)",
			`<a href="http://localhost:8888/" rel="noreferrer">its page</a>`,
		} {
			require.Contains(t, body, want)
		}
		require.NotContains(t, body, "4711", "an error may quote the data of a run")
	})
}

func TestASlotIsACellUnlessThereAreMany(t *testing.T) {
	kinds := func(b bar) (out []string) {
		for _, p := range b.Parts {
			out = append(out, p.Kind)
		}
		return out
	}
	require.Equal(t, []string{"running", "claimed", "open"}, kinds(barOf(phxworker.GroupStats{Counts: slots.Counts{Size: 3, Running: 1, Claimed: 1, Open: 1}}, 40)))
	require.Equal(t, []string{"running", "running"}, kinds(barOf(phxworker.GroupStats{Counts: slots.Counts{Size: 1, Running: 2}}, 2)), "fewer slots than runs, after a resize")
	require.Equal(t, []string(nil), kinds(barOf(phxworker.GroupStats{Counts: slots.Counts{}}, 1)))
	require.Equal(t, []string{"running", "open"}, kinds(barOf(phxworker.GroupStats{Counts: slots.Counts{Size: 500, Running: 400, Open: 100}}, 500)))
}
