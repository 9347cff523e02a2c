package command

import (
	"encoding/json"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/internal/runtest"
	"github.com/phxworker/phxworker/mockserver"
	"github.com/phxworker/phxworker/runner"
)

// The example in Python is a template, so it has to do what it says.
func TestTheExampleInPython(t *testing.T) {
	runtest.Need(t, "python3")
	w := newWire(t, "", Config{
		Args: []string{"python3", filepath.Join("..", "..", "examples", "engine", "engine.py")},
		Runs: 20,
	})
	w.Server.AddCredential("c", json.RawMessage(`{"user":"ann"}`))
	w.Server.AddDataclip("d", json.RawMessage(`{"n":20}`))
	plan := func(members string) mockserver.Run {
		return mockserver.Run{Plan: json.RawMessage(`{"id":"` + runtest.NewID() + `","dataclip_id":"d",` + members + `}`)}
	}
	tests := []struct {
		name                       string
		plan                       string
		reason, errorType, message string
		state                      string
		steps                      int
		printed                    []string
	}{
		{
			name: "a workflow", steps: 2, reason: "success", state: `{"n":42,"user":"ann"}`, printed: []string{`"twice 20"`, `"\u00e9"`},
			plan: `"triggers":[{"id":"t"}],"starting_node_id":"t","jobs":[
				{"id":"a","body":"print('twice', state['n']) or {**state, 'n': 2 * state['n']}"},
				{"id":"b","credential_id":"c","body":"print('é') or {'n': state['n'] + 2, 'user': credential['user']}"},
				{"id":"c","body":"1/0"},{"id":"d","body":"1/0"}],
				"edges":[{"source_trigger_id":"t","target_job_id":"a"},{"source_job_id":"a","target_job_id":"b","condition":"state['n'] == 40"},
				{"source_job_id":"a","target_job_id":"c","condition":"on_job_failure"},{"source_job_id":"a","target_job_id":"d","enabled":false}]`,
		},
		{
			name: "a failure that is handled", steps: 2, reason: "success", state: `{"n":20,"errors":{"a":"division by zero"}}`,
			plan: `"jobs":[{"id":"a","body":"1/0"},{"id":"b"}],"edges":[{"source_job_id":"a","target_job_id":"b","condition":"on_job_failure"}]`,
		},
		{
			name: "a failure", steps: 1, reason: "fail", errorType: "ZeroDivisionError", message: "division by zero", state: `{"n":20,"errors":{"a":"division by zero"}}`,
			plan: `"jobs":[{"id":"a","body":"1/0"},{"id":"b"}],"edges":[{"source_job_id":"a","target_job_id":"b","condition":"on_job_success"}]`,
		},
		{
			name: "a state that is not JSON", steps: 1, reason: "fail", errorType: "ValueError", message: "Out of range float values are not JSON compliant", state: `{}`,
			plan: `"jobs":[{"id":"a","body":"float('nan')"}]`,
		},
		{
			name: "a job that is no Python", reason: "crash", errorType: "CompileError", message: "invalid syntax in the job b, line 1",
			plan: `"jobs":[{"id":"a","body":"state"},{"id":"b","body":"fn(s => s)"}]`,
		},
		{
			name: "an exit", steps: 1, reason: "crash", errorType: "ExitError", message: "Process exited with code: 3",
			plan: `"jobs":[{"id":"a","body":"__import__('os')._exit(3)"}]`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			record := w.Run(t.Context(), runner.Limits{}, plan(tt.plan))
			requireEnd(t, record, tt.reason, tt.errorType, tt.message)
			require.Len(t, eventsOf(record, "step:complete"), tt.steps)
			if tt.state != "" {
				require.JSONEq(t, tt.state, string(record.FinalState))
			}
			if tt.printed != nil {
				require.Equal(t, tt.printed, logLines(t, record, "JOB"))
			}
		})
	}
}
