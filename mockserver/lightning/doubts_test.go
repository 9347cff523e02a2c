package lightning

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDoubts(t *testing.T) {
	const common = `"adaptor":"@openfn/language-common"`
	for _, tt := range []struct {
		name, plan string
		want       []string
	}{
		{name: "nothing", plan: `{"id":"r","triggers":[{"id":"t","type":"webhook"}],"options":{"state_limit_mb":5},"meta":{},
			"jobs":[{"id":"a",` + common + `,"body":"fn(s => s)"},{"id":"b",` + common + `,"body":"fn(s => s)"},{"id":"c","body":""}],
			"edges":[{"id":"1","source_trigger_id":"t","target_job_id":"a"},{"id":"2","source_job_id":"a","target_job_id":"b","condition":"on_job_success"},
			{"id":"3","source_job_id":"a","target_job_id":"c","condition":"!state.errors"}]}`},
		{name: "no plan", plan: `[]`},
		{name: "expression for body", plan: `{"jobs":[{"id":"a","name":"Fetch","expression":"fn(s => s)"}]}`, want: []string{
			`the job "Fetch" (a) has a field "expression", which nothing reads: did you mean "body"?`,
		}},
		{name: "operations of no adaptor", plan: `{"jobs":[{"id":"a","body":"// first\nget('/x')"}]}`, want: []string{
			`the job "a" has no adaptor, and calls get(): operations are an adaptor's, such as "@openfn/language-common"`,
		}},
		{name: "operations of no adaptor, in other shapes", plan: `{"jobs":[{"id":"a","body":"\n  fn(s => s)"},{"id":"b","body":"fn (s => s)"}],"edges":[{"source_job_id":"a","target_job_id":"b"}]}`, want: []string{
			`the job "a" has no adaptor, and calls fn(): operations are an adaptor's, such as "@openfn/language-common"`,
			`the job "b" has no adaptor, and calls fn(): operations are an adaptor's, such as "@openfn/language-common"`,
		}},
		{name: "calls of what is no adaptor's", plan: `{"jobs":[{"id":"a","body":"/*\nfn(x)\n*/\nif (true) {}\nfor(;;) {}\nsetTimeout(() => 1)\nfunction f() {}\nf()\nconst g = () => 1;\ng()"}]}`},
		{name: "code that needs none", plan: `{"jobs":[{"id":"a","body":"export default [s => s]"}]}`},
		{name: "conditions", plan: `{"jobs":[{"id":"a"},{"id":"b"}],"edges":[{"source_job_id":"a","target_job_id":"b","condition":"on_success"},
			{"source_job_id":"a","target_job_id":"b","condition":"whenever"},
			{"source_job_id":"a","target_job_id":"b","condition":"On_Job_Failure"},{"source_job_id":"a","target_job_id":"b","condition":"on_job_succes"}]}`, want: []string{
			`edges[0], from the job "a" to the job "b", has the condition "on_success": did you mean on_job_success?`,
			`edges[1], from the job "a" to the job "b", has the condition "whenever", an expression in JavaScript that reads a variable of that name`,
			`edges[2], from the job "a" to the job "b", has the condition "On_Job_Failure": did you mean on_job_failure?`,
			`edges[3], from the job "a" to the job "b", has the condition "on_job_succes": did you mean on_job_success?`,
		}},
		{name: "edges", plan: `{"jobs":[{"id":"a"}],"edges":[{"source_job_id":"a","target_job_id":"x"},{"source_job_id":"y","target_job_id":"a"},{"target_job_id":"a"},{"source":"a"}]}`, want: []string{
			`edges[0], from the job "a" to "x", leads to a job that the plan does not have`,
			`edges[1], from "y" to the job "a", leaves a node that the plan does not have, and is never followed`,
			`edges[2], from nothing to the job "a", leaves no node: it needs a source_job_id or a source_trigger_id`,
			`edges[3], from nothing to nothing, has a field "source", which nothing reads: did you mean "source_job_id"?`,
			`edges[3], from nothing to nothing, leaves no node: it needs a source_job_id or a source_trigger_id`,
			`edges[3], from nothing to nothing, leads nowhere: it needs a target_job_id`,
		}},
		{name: "jobs that are never reached", plan: `{"jobs":[{"id":"a"},{"id":"b","next":{"a":true}}]}`, want: []string{
			`the job "b" has a field "next", which nothing reads: what comes next is told by the plan's edges`,
			`the job "b" is never executed: no edge leads to it from the job "a", where the run starts`,
		}},
		{name: "an edge that is switched off", plan: `{"jobs":[{"id":"a"},{"id":"b"}],"edges":[{"source_job_id":"a","target_job_id":"b","enabled":false}]}`},
		{name: "a start in the middle, as when a run is tried again from there", plan: `{"starting_node_id":"b","jobs":[{"id":"a"},{"id":"b"},{"id":"c"},{"id":"alone"}],
			"edges":[{"source_job_id":"a","target_job_id":"b"},{"source_job_id":"a","target_job_id":"c"}]}`, want: []string{
			`the job "alone" is never executed: no edge leads to it from the job "b", where the run starts`,
		}},
		{name: "a start that is not there", plan: `{"starting_node_id":"x","jobs":[{"id":"a"}]}`, want: []string{`the plan starts with "x", which it does not have`}},
		{name: "beside fields of a wrong type", plan: `{"starting_node_id":7,"triggers":[{"id":"t","type":1}],"jobs":[{"id":"a","name":7,"adaptor":{},"expression":"x"}],
			"edges":[{"source_trigger_id":"t","target_job_id":"a","enabled":"yes","condition":true}]}`, want: []string{
			`the job "a" has a field "expression", which nothing reads: did you mean "body"?`,
		}},
		{name: "fields of meta, and in other letters", plan: `{"meta":{"workflow_id":"w","workorder":1},"jobs":[{"id":"a","Body":"x","adapter":"@openfn/language-common"}]}`, want: []string{
			`meta has a field "workorder", which nothing reads`,
			`the job "a" has a field "Body", which nothing reads: did you mean "body"?`,
			`the job "a" has a field "adapter", which nothing reads: did you mean "adaptor"?`,
		}},
		{name: "credentials", plan: `{"jobs":[{"id":"a","credential_id":"known"},{"id":"b","credential":{"user":"x"}},{"id":"c","credential":"gone"},{"id":"d"}],
			"edges":[{"source_job_id":"a","target_job_id":"b"},{"source_job_id":"b","target_job_id":"c"},{"source_job_id":"c","target_job_id":"d"}]}`, want: []string{
			`the job "c" names the credential "gone", which neither the plan nor the server has`,
		}},
		{name: "unknown fields", plan: `{"jobs":[],"start":"a","options":{"timeout":5},"colour":1}`, want: []string{
			`the plan has a field "colour", which nothing reads`,
			`the plan has a field "start", which nothing reads: did you mean "starting_node_id"?`,
			`options has a field "timeout", which nothing reads: did you mean "run_timeout_ms"?`,
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			require.Equal(t, tt.want, doubtsOf(json.RawMessage(tt.plan), func(id string) bool { return id == "known" }))
		})
	}
}
