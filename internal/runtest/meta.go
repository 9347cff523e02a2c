package runtest

import (
	"encoding/json"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/mockserver"
	"github.com/phxworker/phxworker/runner"
)

// RequireMeta asserts what the jobs of a run see of where it comes from: the same in every step, and nothing that
// they can change.
func (b *Bench) RequireMeta() {
	b.T.Helper()
	const tries = `fn(s => { let no = 0; for (const f of [() => { meta.runId = 'x'; }, () => { delete meta.runId; }, () => { meta.more = 1; }]) ` +
		`try { f(); } catch { no++; } return { a: { ...meta }, no }; })`
	id := NewID()
	plan := json.RawMessage(`{"id":"` + id + `","project_id":"p","meta":{"work_order_id":"o","workflow_id":"w"},"jobs":[
		{"id":"a","adaptor":"@openfn/language-common@3.3.4","body":"` + tries + `"},
		{"id":"b","adaptor":"@openfn/language-common@3.3.4","body":"fn(s => ({ ...s, b: { ...meta } }))"}],
		"edges":[{"source_job_id":"a","target_job_id":"b"}]}`)
	record := b.Run(b.T.Context(), runner.Limits{}, mockserver.Run{Plan: plan})
	require.Equal(b.T, "success", record.Reason, record.ErrorMessage)
	var state struct {
		A, B map[string]string
		No   int
	}
	require.NoError(b.T, json.Unmarshal(record.FinalState, &state))
	require.Equal(b.T, 3, state.No, "it cannot be changed")
	require.Equal(b.T, state.A, state.B, "it is the same for every step")
	require.Regexp(b.T, `^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$`, state.A["startTime"])
	delete(state.A, "startTime")
	require.Equal(b.T, map[string]string{"runId": id, "workOrderId": "o", "workflowId": "w", "projectId": "p"}, state.A)
}
