package js

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/internal/runtest"
	"github.com/phxworker/phxworker/runner"
)

// What the page on plans shows is posted to the mock server and executed, and comes to what stands there.
func TestThePageOfPlans(t *testing.T) {
	page, err := os.ReadFile("../../docs/plan.md")
	require.NoError(t, err)
	blocks := regexp.MustCompile("(?s)```json\n(.*?)```").FindAllSubmatch(page, -1)
	require.NotEmpty(t, blocks)
	require.Zero(t, len(blocks)%2, "plans and what they come to")
	w := runtest.New(t, New(Config{}))
	for i := 0; i < len(blocks); i += 2 {
		plan, want := string(blocks[i][1]), map[string]any{}
		require.NoError(t, json.Unmarshal(blocks[i+1][1], &want))
		answer := httptest.NewRecorder()
		w.Server.ServeHTTP(answer, httptest.NewRequest(http.MethodPost, "/run?queue=manual", strings.NewReader(plan)))
		require.Equal(t, 201, answer.Code, answer.Body)
		var posted struct{ Warnings any }
		require.NoError(t, json.Unmarshal(answer.Body.Bytes(), &posted))
		require.Equal(t, want["warnings"], posted.Warnings, plan)
		delete(want, "warnings")

		record, _ := w.Next(t.Context(), runner.Limits{})
		result, err := json.Marshal(record.Result)
		require.NoError(t, err)
		got := map[string]any{}
		require.NoError(t, json.Unmarshal(result, &got))
		for key := range want {
			require.Equal(t, want[key], got[key], "%s of %s", key, plan)
		}
	}
}

// Guards against an error that names neither the edge nor the jobs that it is between.
func TestAnErrorOfTheGraphNamesTheEdge(t *testing.T) {
	w := runtest.New(t, New(Config{}))
	const jobs = `"jobs":[{"id":"a-1","name":"Fetch","body":"export default [s => s]"},{"id":"b-1","name":"Store"}]`
	for edge, want := range map[string]string{
		`{"source_job_id":"a-1","target_job_id":"c"}`:                                                 `The edge from "Fetch" leads to "c", which is no job of the plan`,
		`{"source_job_id":"a-1","target_job_id":"b-1","condition":"state.x.y.z > 1"}`:                 `The condition on the edge from "Fetch" to "Store" was looked at: state.x.y.z > 1`,
		`{"source_job_id":"a-1","target_job_id":"b-1"},{"source_job_id":"b-1","target_job_id":"a-1"}`: `The edge from "Store" to "Fetch" closes a circle`,
		`{"source_job_id":"a-1","target_job_id":"b-1","condition":"((("}`:                             `The condition on the edge from "Fetch" to "Store" was compiled: (((`,
	} {
		run := runtest.OneJob("")
		run.Plan = json.RawMessage(`{"id":"` + runtest.NewID() + `",` + jobs + `,"edges":[` + edge + `]}`)
		record := w.Run(t.Context(), runner.Limits{}, run)
		require.Equal(t, "crash", record.Reason)
		encoded, err := json.Marshal(want)
		require.NoError(t, err)
		lines := strings.Join(runtest.Lines(t, record, "R/T"), "\n")
		require.Contains(t, strings.ReplaceAll(lines, `\u003e`, ">"), strings.ReplaceAll(string(encoded), `\u003e`, ">"))
	}
}
