package runner

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestParsePlan(t *testing.T) {
	plan, err := ParsePlan([]byte(`{"id":"r","jobs":[{"id":"j","adaptor":null,"credential_id":null}],"edges":[{"source_trigger_id":"t","target_job_id":"j","enabled":false}],
		"dataclip_id":null,"options":{"run_timeout_ms":1500,"output_dataclips":false},"new_field":{"kept":true}}`))
	require.NoError(t, err)
	require.Equal(t, "t", plan.Edges[0].Source())
	require.False(t, plan.Edges[0].IsEnabled())
	require.Contains(t, string(plan.Raw), `"new_field":{"kept":true}`)
	limits := Limits{MemoryMB: 300}.WithDefaults().override(plan.Options)
	require.Equal(t, Limits{RunTimeout: 1500 * time.Millisecond, MemoryMB: 300, PayloadMB: 10, LogPayloadMB: 1, WithholdDataclips: true}, limits)
}

func TestLimitsBeyondMeasureStayNumbers(t *testing.T) {
	plan, err := ParsePlan([]byte(`{"id":"r","jobs":[],"options":{"run_timeout_ms":1e300,"run_memory_limit_mb":1e300,"payload_limit_mb":1e300}}`))
	require.NoError(t, err)
	limits := Limits{}.WithDefaults().override(plan.Options)
	require.Greater(t, limits.RunTimeout, 24*time.Hour)
	require.Positive(t, limits.PayloadMB)
	require.Equal(t, float64(maxMB), limits.MemoryMB) //nolint:testifylint // exactly
}

func TestParsePlanNamesWhatIsWrong(t *testing.T) {
	tests := []struct{ name, in, want string }{
		{name: "no JSON", in: `{`, want: "cannot be read"},
		{name: "an array", in: `[]`, want: "the whole must not be of type array"},
		{name: "no id", in: `{"jobs":[]}`, want: `has no "id"`},
		{name: "jobs of the wrong type", in: `{"id":"r","jobs":7}`, want: "jobs must not be of type number"},
		{name: "a body of the wrong type", in: `{"id":"r","jobs":[{"id":"j","body":{}}]}`, want: "jobs.body must not be of type object"},
		{name: "a job without id", in: `{"id":"r","jobs":[{"body":""}]}`, want: `jobs[0] of the plan has no "id"`},
		{name: "a job with a name and no id", in: `{"id":"r","jobs":[{"name":"Fetch"}]}`, want: `jobs[0] of the plan, "Fetch", has no "id"`},
		{name: "an edge from somewhere to nowhere", in: `{"id":"r","jobs":[{"id":"a","name":"Fetch"}],"edges":[{"source_job_id":"a"}]}`, want: `edges[0] of the plan, from "Fetch", has no "target_job_id"`},
		{name: "two jobs alike", in: `{"id":"r","jobs":[{"id":"j"},{"id":"j"}]}`, want: `two jobs of the plan have the id "j"`},
		{name: "an edge to nowhere", in: `{"id":"r","jobs":[],"edges":[{}]}`, want: `edges[0] of the plan has no "target_job_id"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := ParsePlan([]byte(tt.in))
			require.ErrorContains(t, err, tt.want)
		})
	}
}

func TestCredentialRef(t *testing.T) {
	tests := []struct {
		name, job, id, inline string
	}{
		{name: "none", job: `{}`},
		{name: "null", job: `{"credential":null,"credential_id":null}`},
		{name: "by id", job: `{"credential_id":"c"}`, id: "c"},
		{name: "by the other spelling", job: `{"credential":"c"}`, id: "c"},
		{name: "inline", job: `{"credential":{"a":1}}`, inline: `{"a":1}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var job Job
			require.NoError(t, json.Unmarshal([]byte(tt.job), &job))
			id, inline := job.CredentialRef()
			require.Equal(t, tt.id, id)
			require.Equal(t, tt.inline, string(inline))
		})
	}
}

// FuzzParsePlan looks for plans that panic, here or in what is asked of a plan before an engine has
// it, and for limits that are none.
func FuzzParsePlan(f *testing.F) {
	for _, plan := range []string{
		`{"id":"r1","jobs":[{"id":"a"}]}`, `{"id":"r1","jobs":[{"id":"a"},{"id":"a"}]}`, `{"id":"r1","edges":[{}]}`, `{"id":"r1","edges":[{"target_job_id":"a","enabled":false}]}`,
		`{"id":"r1","jobs":[{"id":"a","credential":"c"},{"id":"b","credential":{"x":1}},{"id":"c","credential_id":"d","credential":null}]}`,
		`{"id":"r1","options":{"run_timeout_ms":1e300,"run_memory_limit_mb":-1,"payload_limit_mb":1e308,"log_payload_limit_mb":0,"deadline_ms":9e99,"output_dataclips":false,"job_log_level":"x"}}`,
		`{"id":"r1","options":{"run_timeout_ms":1e-300,"deadline_ms":-1}}`, `[]`, `null`, `{"id":7}`, `{"id":"r1","jobs":{}}`, `{"id":"r1","jobs":[null],"edges":[null]}`, "{\"id\":\"\xff\"}",
	} {
		f.Add([]byte(plan))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		plan, err := ParsePlan(data)
		if err != nil {
			require.Less(t, len(err.Error()), mostWords)
			return
		}
		require.NotEmpty(t, plan.ID)
		require.Equal(t, string(data), string(plan.Raw))
		ids := credentialIDs(plan.Jobs)
		require.LessOrEqual(t, len(ids), len(plan.Jobs))
		limits := Limits{}.WithDefaults().override(plan.Options)
		require.Positive(t, limits.MemoryMB)
		require.GreaterOrEqual(t, limits.RunTimeout, time.Duration(0))
		require.LessOrEqual(t, limits.RunTimeout, milliseconds(maxMilliseconds))
		require.GreaterOrEqual(t, limits.PayloadMB, -1.0)
		require.GreaterOrEqual(t, limits.LogPayloadMB, -1.0)
		_, err = plan.Options.Deadline().MarshalJSON()
		require.NoError(t, err)
		for i := range plan.Jobs {
			name, version := SplitAdaptor(plan.Jobs[i].Adaptor)
			require.LessOrEqual(t, len(name)+len(version), len(plan.Jobs[i].Adaptor))
		}
	})
}

// As with OpenFn's worker: 0 withholds what would be sent, and is no limit of a state.
func TestLimitsOfNothing(t *testing.T) {
	plan, err := ParsePlan([]byte(`{"id":"r","jobs":[],"options":{"payload_limit_mb":0,"log_payload_limit_mb":0,"state_limit_mb":0,"run_memory_limit_mb":0,"run_timeout_ms":0}}`))
	require.NoError(t, err)
	limits := Limits{}.WithDefaults().override(plan.Options)
	require.Negative(t, limits.PayloadMB)
	require.Negative(t, limits.LogPayloadMB)
	require.Zero(t, limits.StateLimitMB())
	require.InDelta(t, 500, limits.MemoryMB, 0)
	require.Equal(t, 300*time.Second, limits.RunTimeout)
	require.Equal(t, "0mb", FormatMB(limits.PayloadMB))
}

func TestTheLimitOfAState(t *testing.T) {
	for _, tt := range []struct {
		name   string
		limits Limits
		plan   string
		want   float64
	}{
		{name: "a share of the memory", limits: Limits{MemoryMB: 700}, want: 105},
		{name: "not less than 50", limits: Limits{MemoryMB: 64}, want: 50},
		{name: "a share of what the plan says", plan: `{"run_memory_limit_mb":1000}`, want: 150},
		{name: "the worker's own", limits: Limits{StateMB: 3}, plan: `{"run_memory_limit_mb":1000}`, want: 3},
		{name: "the plan's own", limits: Limits{StateMB: 3}, plan: `{"state_limit_mb":0.5}`, want: 0.5},
		{name: "none", limits: Limits{StateMB: -1}, want: 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var o PlanOptions
			if tt.plan != "" {
				require.NoError(t, json.Unmarshal([]byte(tt.plan), &o))
			}
			require.InDelta(t, tt.want, tt.limits.WithDefaults().override(o).StateLimitMB(), 0)
		})
	}
}
