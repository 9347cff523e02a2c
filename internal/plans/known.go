package plans

import "encoding/json"

// Known are plans of which it is known what becomes of them, by the events of OpenFn's own worker: every engine that
// stands for it comes to the same.
var Known = []struct {
	Name  string
	Plan  json.RawMessage // with the id "known"
	Steps string          // the jobs that are executed, in order
	// Reason is how the run ends.
	Reason string
}{
	{Name: "no jobs", Plan: of(``, ``), Reason: "crash"},
	{Name: "no code", Plan: of(`{"id":"a"},{"id":"b"}`, `{"source_job_id":"a","target_job_id":"b"}`), Reason: "success"},
	{Name: "a chain", Plan: of(job("a", ok)+","+job("b", ok), `{"source_job_id":"a","target_job_id":"b"}`), Steps: "a b", Reason: "success"},
	{Name: "joined", Plan: of(job("a", ok)+","+job("b", ok)+","+job("c", ok)+","+job("d", ok), edges("a>b", "a>c", "b>d", "c>d")), Steps: "a b c d d", Reason: "success"},
	{Name: "through what has no code", Plan: of(job("a", ok)+`,{"id":"b"},{"id":"c"},`+job("d", ok), edges("a>b", "a>c", "b>d", "c>d")), Steps: "a d d", Reason: "success"},
	{Name: "a cycle", Plan: of(job("a", ok)+","+job("b", ok), edges("a>b", "b>a")), Reason: "crash"},
	{Name: "an edge to nowhere", Plan: of(job("a", ok), edges("a>z")), Reason: "crash"},
	{Name: "an edge from nowhere", Plan: of(job("a", ok), edges("z>a")), Steps: "a", Reason: "success"},
	{Name: "a disabled edge", Plan: of(job("a", ok)+","+job("b", ok), `{"source_job_id":"a","target_job_id":"b","enabled":false}`), Steps: "a", Reason: "success"},
	{Name: "a failure that is handled", Plan: of(job("a", no)+","+job("b", ok), `{"source_job_id":"a","target_job_id":"b","condition":"on_job_failure"}`), Steps: "a b", Reason: "success"},
	{Name: "a failure that is not", Plan: of(job("a", no)+","+job("b", ok), `{"source_job_id":"a","target_job_id":"b","condition":"on_job_success"}`), Steps: "a", Reason: "fail"},
	{Name: "a condition that does not parse", Plan: of(job("a", ok)+","+job("b", ok), `{"source_job_id":"a","target_job_id":"b","condition":"state ==="}`), Reason: "crash"},
	{Name: "a condition that throws", Plan: of(job("a", ok)+","+job("b", ok), `{"source_job_id":"a","target_job_id":"b","condition":"state.x.y"}`), Steps: "a", Reason: "crash"},
	{Name: "code that does not parse", Plan: of(job("a", ok)+","+job("b", "fn("), edges("a>b")), Reason: "crash"},
	{Name: "an unknown start", Plan: json.RawMessage(`{"id":"known","jobs":[` + job("a", ok) + `],"starting_node_id":"z"}`), Reason: "crash"},
	{Name: "wrong types", Plan: json.RawMessage(`{"id":"known","jobs":[{"id":"a","body":7}]}`), Reason: "exception"},
	{Name: "ways without number", Plan: of(layers(40)), Reason: "crash"},
	{Name: "code that is too large", Plan: of(job("a", tooLarge), ``), Reason: "crash"},
}
