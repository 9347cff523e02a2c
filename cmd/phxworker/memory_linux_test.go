package main

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/mockserver"
)

// part is a job or an edge of a plan.
type part map[string]any

func job(id, body string) part {
	return part{"id": id, "adaptor": "@openfn/language-common", "body": body}
}

// line returns a plan of so many jobs with the same body, one after the other.
func line(id string, n int, body, condition string) json.RawMessage {
	jobs, edges := []part{job("0", body)}, []part{}
	for i := 1; i < n; i++ {
		jobs = append(jobs, job(strconv.Itoa(i), body))
		edges = append(edges, part{"source_job_id": strconv.Itoa(i - 1), "target_job_id": strconv.Itoa(i), "condition": condition})
	}
	plan, _ := json.Marshal(part{"id": id, "jobs": jobs, "edges": edges}) // cannot fail
	return plan
}

// hostilePlans are as large as servers send them, or small for what they ask of a worker; and how they end.
func hostilePlans() map[string]struct {
	plan   func(id string) json.RawMessage
	reason string
} {
	const mb = 1 << 20
	jobs := func(n int, body string) func(string) json.RawMessage {
		return func(id string) json.RawMessage { return line(id, n, body, "false") }
	}
	condition := func(text string) func(string) json.RawMessage {
		return func(id string) json.RawMessage { return line(id, 2, "fn(s => s)", text) }
	}
	return map[string]struct {
		plan   func(id string) json.RawMessage
		reason string
	}{
		"assignments":         {jobs(1, strings.Repeat("x=1;", 8*mb/4)), "crash"},
		"many assignments":    {jobs(20, strings.Repeat("x=1;", 100_000/4)), "crash"},
		"operations":          {jobs(1, strings.Repeat("f();\n", 50_000/4)+"fn("), "crash"},
		"lazy state":          {jobs(2, strings.Repeat("f($.a);\n", 70_000/7)+"fn("), "crash"},
		"ordinary, but much":  {jobs(10, strings.Repeat("const f = s => { let { a } = s; return a.b.c; };\n", 1)+strings.Repeat("{ let a = s => s.data; }\n", 300)+"fn(s => s)"), "success"},
		"texts":               {jobs(3, "fn(s => '"+strings.Repeat("x=1;", 2*mb/4)+"'.length)"), "success"},
		"a condition":         {condition(strings.Repeat("1+", 2*mb) + "1"), "crash"},
		"a text as condition": {condition("'" + strings.Repeat("1+", 2*mb) + "'"), "success"},
		"conditions":          {func(id string) json.RawMessage { return line(id, 300, "", strings.Repeat("1+", 4000)+"0") }, "crash"},
		"very many jobs":      {func(id string) json.RawMessage { return line(id, 2000, "", "always") }, "success"},
	}
}

// The worker's own memory, beside what the limits of runs give to their jobs.
func TestHostilePlansDoNotFillTheWorker(t *testing.T) {
	const limitMB = 300
	s := launch(t, "--engine", "js")
	plans, copies := hostilePlans(), []string{"1", "2"}
	for name, p := range plans {
		for _, n := range copies {
			_, err := s.server.Enqueue(mockserver.Run{Plan: p.plan(name + n)})
			require.NoError(t, err)
		}
	}
	for name, p := range plans {
		for _, n := range copies {
			result := wait(t, s.server, name+n)
			require.Equal(t, p.reason, result.Reason, "%s: %.300s", name, result.ErrorMessage)
		}
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.worker.Process.Pid))
	require.NoError(t, err)
	peak := regexp.MustCompile(`VmHWM:\s+(\d+) kB`).FindSubmatch(status)
	require.NotNil(t, peak)
	kb, err := strconv.Atoi(string(peak[1]))
	require.NoError(t, err)
	t.Logf("the worker had %d MB at most", kb>>10)
	require.Less(t, kb>>10, limitMB)
}
