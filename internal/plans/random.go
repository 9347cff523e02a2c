package plans

import (
	"encoding/json"
	"fmt"
)

// Random returns a plan that a fuzzer's bytes stand for. It is JSON, and has the id.
func Random(id string, bytes []byte) json.RawMessage {
	r := reader{bytes}
	plan := map[string]any{"id": id}
	jobs := []any{}
	for range r.below(7) {
		jobs = append(jobs, r.spoil(map[string]any{
			"id": r.one(ids), "name": r.one(ids), "adaptor": r.one(adaptors), "body": r.one(bodies),
		}))
	}
	plan["jobs"] = jobs
	if n := r.below(3); n > 0 {
		var triggers []any
		for range n {
			triggers = append(triggers, r.spoil(map[string]any{"id": r.one(ids)}))
		}
		plan["triggers"] = triggers
	}
	var edges []any
	for range r.below(13) {
		edge := map[string]any{"id": r.one(ids), "target_job_id": r.one(ids), "condition": r.one(conditions)}
		if r.below(4) > 0 {
			edge["source_job_id"] = r.one(ids)
		}
		if r.below(4) == 0 {
			edge["source_trigger_id"] = r.one(ids)
		}
		edges = append(edges, r.spoil(edge))
	}
	plan["edges"] = edges
	if r.below(4) == 0 {
		plan["starting_node_id"] = r.one(ids)
	}
	if r.below(4) == 0 {
		plan["options"] = r.spoil(map[string]any{"run_timeout_ms": 1000, "output_dataclips": true, "job_log_level": "none"})
	}
	text, err := json.Marshal(r.spoil(plan))
	if err != nil {
		panic(fmt.Sprintf("plans: %v", err)) // it is made of what has JSON
	}
	return text
}

var (
	ids        = []any{"a", "b", "c", "d", "e", "a-1", "", "0", "1", "__proto__", "constructor", "toString", "é 💥", "trigger"}
	adaptors   = []any{"@openfn/language-common", "@openfn/language-common@3.3.4", "@openfn/language-common@latest", "", nil}
	bodies     = []any{"fn(s => s)", "", " ", "fn(s => ({ ...s, n: (s.n ?? 0) + 1 }))", "fn(() => { throw new Error('no'); })", "fn(", "export default [s => s]", "fn(() => undefined)", "let x; let x", "fn(s => $.a)", "fn(() => 42)"}
	conditions = []any{"", "always", "on_job_success", "on_job_failure", " always ", "true", "false", "state.data", "!state.errors", "state ===", "state.x.y", "upstreamStepId == 'a'", nil, "(() => { throw 1 })()"}
	wrong      = []any{nil, true, 0, -1, 1e308, "", "text", []any{}, map[string]any{}, []any{nil}, json.RawMessage("1e400"), json.RawMessage("12345678901234567890"), json.RawMessage(`[[[[[[{"a":[[]]}]]]]]]`)}
)

// reader takes decisions from bytes, and the first one of each kind when there are no more.
type reader struct{ bytes []byte }

func (r *reader) below(n int) int {
	if len(r.bytes) == 0 {
		return 0
	}
	b := r.bytes[0]
	r.bytes = r.bytes[1:]
	return int(b) % n
}

func (r *reader) one(list []any) any { return list[r.below(len(list))] }

// spoil gives one of the fields a wrong value now and then, takes it away, or adds one.
func (r *reader) spoil(fields map[string]any) map[string]any {
	if r.below(16) != 1 {
		return fields
	}
	names := []any{"id", "name", "body", "jobs", "edges", "condition", "source_job_id", "target_job_id", "enabled", "options", "run_timeout_ms", "state", "credential", "unknown", "globals", "triggers", "adaptor"}
	name, _ := r.one(names).(string)
	if r.below(4) == 0 {
		delete(fields, name)
		return fields
	}
	fields[name] = r.one(wrong)
	return fields
}
