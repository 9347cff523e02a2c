package js

import (
	"encoding/json"
	"fmt"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/internal/runtest"
	"github.com/phxworker/phxworker/mockserver"
	"github.com/phxworker/phxworker/runner"
	"github.com/phxworker/phxworker/runner/compile"
)

// workflow returns a run whose jobs note their own id in state.path; edges are
// "a>b", with a condition after a space. A job whose id begins with "fail" throws, one with "bare" has no code.
func workflow(edges []string, members ...string) mockserver.Run {
	var jobs, links []string
	seen := make(map[string]bool)
	add := func(id string) {
		if seen[id] || id == "trigger" || strings.HasPrefix(id, "missing") {
			return
		}
		seen[id] = true
		body := fmt.Sprintf("fn(s => ({ ...s, path: (s.path ?? '') + '%s ' }))", id)
		if strings.HasPrefix(id, "fail") {
			body = "fn(() => { throw new Error('failed'); })"
		}
		if strings.HasPrefix(id, "bare") {
			body = ""
		}
		jobs = append(jobs, fmt.Sprintf(`{"id":%q,"adaptor":"@openfn/language-common@latest","body":%q}`, id, body))
	}
	for i, edge := range edges {
		path, condition, _ := strings.Cut(edge, " ")
		from, to, linked := strings.Cut(path, ">")
		add(from)
		if !linked {
			continue
		}
		add(to)
		source := "source_job_id"
		if from == "trigger" {
			source = "source_trigger_id"
		}
		links = append(links, fmt.Sprintf(`{"id":"e%d",%q:%q,"target_job_id":%q,"condition":%q}`, i, source, from, to, condition))
	}
	plan := fmt.Sprintf(`{"id":%q,"jobs":[%s],"edges":[%s]`, runtest.NewID(), strings.Join(jobs, ","), strings.Join(links, ","))
	for _, member := range members {
		plan += "," + member
	}
	return mockserver.Run{Plan: json.RawMessage(plan + "}")}
}

func started(t *testing.T, record mockserver.RunRecord) string {
	t.Helper()
	var ids []string
	for _, e := range record.Events {
		if e.Event == "step:start" {
			var start struct {
				JobID string `json:"job_id"`
			}
			require.NoError(t, json.Unmarshal(e.Payload, &start))
			ids = append(ids, start.JobID)
		}
	}
	return strings.Join(ids, " ")
}

func TestTheGraphIsFollowed(t *testing.T) {
	trigger := `"triggers":[{"id":"trigger"}]`
	tests := []struct {
		name    string
		edges   []string
		members []string
		steps   string
		want    string // the final state
	}{
		{name: "chain", edges: []string{"a>b", "b>c always"}, steps: "a b c", want: `{"data":{},"path":"a b c "}`},
		{name: "breadth first", edges: []string{"a>b", "b>b2", "a>c", "c>c2"}, steps: "a b c b2 c2", want: `{"b2":{"data":{},"path":"a b b2 "},"c2":{"data":{},"path":"a c c2 "}}`},
		{name: "joined three times", edges: []string{"a>b", "a>c", "a>d", "b>e", "c>e", "d>e"}, steps: "a b c d e e e", want: `{"e":{"data":{},"path":"a b e "},"e-1":{"data":{},"path":"a c e "},"e-2":{"data":{},"path":"a d e "}}`}, //nolint:dupword // as it must be
		{name: "ids that look numbered", edges: []string{"a>d-1", "a>d", "a>d-2"}, steps: "a d-1 d d-2", want: `{"d":{"data":{},"path":"a d "},"d-1":{"data":{},"path":"a d-1 "},"d-2":{"data":{},"path":"a d-2 "}}`},
		{name: "from a trigger", edges: []string{"a", "trigger>b"}, members: []string{trigger}, steps: "b", want: `{"data":{},"path":"b "}`},
		{name: "from the named node", edges: []string{"a>b", "b>c"}, members: []string{`"starting_node_id":"b"`}, steps: "b c", want: `{"data":{},"path":"b c "}`},
		{name: "success and failure", edges: []string{"a>b on_job_success", "a>c on_job_failure"}, steps: "a b", want: `{"data":{},"path":"a b "}`},
		{name: "expressions", edges: []string{"a>b state.path === 'a '", "a>c !state.path;", "a>d upstreamStepId == 'a'"}, steps: "a b d", want: `{"b":{"data":{},"path":"a b "},"d":{"data":{},"path":"a d "}}`},
		{name: "an expression that changes the state", edges: []string{"a>b state.path += 'edge '"}, steps: "a b", want: `{"data":{},"path":"a edge b "}`},
		{name: "an expression on a trigger", edges: []string{"trigger>a !state", "trigger>b state"}, members: []string{trigger}, steps: "b", want: `{"data":{},"path":"b "}`},
		{name: "spaces around a word", edges: []string{"a>b  always ", "a>c on_job_failure "}, steps: "a b", want: `{"data":{},"path":"a b "}`},
		{
			name: "disabled edges that cannot be followed", edges: []string{"a"}, steps: "a", want: `{"data":{},"path":"a "}`,
			members: []string{`"edges":[{"source_job_id":"a","target_job_id":"z","enabled":false},{"source_job_id":"a","target_job_id":"a","enabled":false,"condition":"state ==="}]`},
		},
		{name: "nothing follows the trigger", edges: []string{"trigger>a false"}, members: []string{trigger}, steps: "", want: `{}`},
	}
	w := runtest.New(t, New(Config{}))
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			record := w.Run(t.Context(), runner.Limits{}, workflow(tt.edges, tt.members...))
			require.Equal(t, "success", record.Reason, record.ErrorMessage)
			require.Equal(t, tt.steps, started(t, record))
			require.JSONEq(t, tt.want, string(record.FinalState))
		})
	}
}

func TestAPlanThatCannotBeFollowed(t *testing.T) {
	tests := []struct {
		name    string
		edges   []string
		members []string
		kind    string
		message string
		steps   string
	}{
		{name: "unknown start", edges: []string{"a"}, members: []string{`"starting_node_id":"zzz"`}, kind: "ValidationError", message: "Could not find start job: zzz"},
		{name: "unknown target", edges: []string{"a>missing"}, kind: "ValidationError", message: "Cannot find job: missing"},
		{name: "cycle", edges: []string{"a>b", "b>a"}, kind: "ValidationError", message: "Circular dependency: b <-> a"},
		{name: "cycle of one", edges: []string{"a", "b>b"}, kind: "ValidationError", message: "Circular dependency: b <-> b"},
		{name: "conditions that do not parse", edges: []string{"a>b state.data ===", "b>c let x", "b>a !", "a>c await 1"}, kind: "ValidationError", message: "Circular dependency: b <-> a"},
		{name: "conditions that do not parse, in the order of the jobs", edges: []string{"a>b state.data ===", "b>c let x", "a>c await 1"}, kind: "Error", message: "Failed to compile edge condition a->b (Unexpected end of input)\n\nFailed to compile edge condition a->c (await is only valid in async functions and the top level bodies of modules)\n\nFailed to compile edge condition b->c (Unexpected identifier 'x')"},
		{name: "condition that asks for the members of nothing", edges: []string{"a>b Object.keys(state.nothing)"}, kind: "EdgeConditionError", message: "Cannot convert undefined or null to object", steps: "a"},
		{name: "condition that does not parse", edges: []string{"a>b state.data ==="}, kind: "Error", message: "Failed to compile edge condition a->b (Unexpected end of input)"},
		{name: "condition that throws", edges: []string{"a>b state.x.y"}, kind: "EdgeConditionError", message: "Cannot read properties of undefined (reading 'y')", steps: "a"},
		{name: "condition that throws a string", edges: []string{"a>b (() => { throw 'text'; })()"}, kind: "EdgeConditionError", message: "text", steps: "a"},
		{name: "condition that would go on for minutes", edges: []string{`a>b 'a'['locale' + 'Compare']('\u0301\u0323'.repeat(3e5))`}, kind: "EdgeConditionError", message: "localeCompare() would take too long", steps: "a"},
	}
	w := runtest.New(t, New(Config{}))
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			record := w.Run(t.Context(), runner.Limits{}, workflow(tt.edges, tt.members...))
			require.Equal(t, []string{"crash", tt.kind, tt.message}, []string{record.Reason, record.ErrorType, record.ErrorMessage})
			require.Equal(t, tt.steps, started(t, record))
		})
	}
}

// Guards against a job that parses and cannot be loaded, found when the steps before it had run.
func TestAJobThatCannotBeLoadedStopsTheRunBeforeItsFirstStep(t *testing.T) {
	jobs := `[{"id":"a","body":"export default [s => s]"},{"id":"b","body":"let x = 1; let x = 2"}]`
	run := mockserver.Run{Plan: json.RawMessage(`{"id":"` + runtest.NewID() + `","jobs":` + jobs + `,"edges":[{"id":"e","source_job_id":"a","target_job_id":"b"}]}`)}
	record := runtest.New(t, New(Config{})).Run(t.Context(), runner.Limits{}, run)
	require.Equal(t, []string{"crash", "CompileError", "b: Identifier 'x' has already been declared (1:15)"}, []string{record.Reason, record.ErrorType, record.ErrorMessage})
	require.Empty(t, started(t, record))
}

// Guards against a step that begins with a state that is none, where OpenFn's runtime ends the run.
func TestAStateOfNull(t *testing.T) {
	jobs := `[{"id":"a","body":"export default [() => new Date(NaN)]"},{"id":"b","body":"export default [s => s]"}]`
	run := mockserver.Run{Plan: json.RawMessage(`{"id":"` + runtest.NewID() + `","jobs":` + jobs + `,"edges":[{"id":"e","source_job_id":"a","target_job_id":"b"}]}`)}
	record := runtest.New(t, New(Config{})).Run(t.Context(), runner.Limits{}, run)
	require.Equal(t, []string{"crash", "TypeError", "Cannot read properties of null (reading 'references')"}, []string{record.Reason, record.ErrorType, record.ErrorMessage})
	require.Equal(t, "a", started(t, record))
	require.Contains(t, runtest.Lines(t, record, "R/T"), `"WARNING: step a did not return a state object. This may cause downstream jobs to fail."`)
}

// QuickJS takes nothing of a text that is spread in an object, where there is its letters in Node: this is told on the page.
// Guards against a success with other data: QuickJS takes nothing of a text that is spread in an object.
func TestATextThatIsSpread(t *testing.T) {
	tests := []struct{ name, body, want string }{
		{"a text", "fn(() => ({ ...'ab', ...[9], list: [...'ab'] }))", `{"0":9,"1":"b","list":["a","b"]}`},
		{"what is none", "fn(() => ({ ...null, ...undefined, ...1, ...true, ...Symbol('x'), a: 1 }))", `{"a":1}`},
		{"the last of several", "fn(s => ({ ... ( /* ) */ 'x', ('yz') ), }))", `{"0":"y","1":"z"}`},
		{"a choice in brackets", "fn(s => ({ ...(s.a) ? (1) : ('ab'), ...{ ...('c') } }))", `{"0":"c","1":"b"}`},
		{"lazy state and a promise", "fn(() => ({ a: 'xy' })); fn(state => ({ ...$.a })).then(s => ({ ...s, b: `${{ ...'q' }[0]}` }))", `{"0":"x","1":"y","b":"q"}`},
		{"where Object is the job's own", "const Object = { keys: 1 }; fn(() => ({ ...'a', k: Object.keys }))", `{"0":"a","k":1}`},
		{"a pattern", "fn(() => { const { a, ...b } = { a: 1, c: 2 }; let d; ({ a: d, ...globalThis.e } = { a: 3, f: 4 }); return { b, d, e: globalThis.e }; })", `{"b":{"c":2},"d":3,"e":{"f":4}}`},
		{"an object is the same", "const o = { get a() { return this === o ? 1 : 2; } }; fn(async () => ({ ...await o, ...(() => o)() }))", `{"a":1}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			record := runtest.New(t, New(Config{})).Job(tt.body)
			require.Equal(t, "success", record.Reason, record.ErrorMessage)
			require.JSONEq(t, tt.want, string(record.FinalState))
		})
	}
}

// What a job leaves behind in its VM is no part of the state.
func TestStepsShareTheStateOnly(t *testing.T) {
	jobs := `[
		{"id":"a","body":"export default [s => { globalThis.leak = 1; Array.prototype.leak = 2; s.when = new Date(0); return s; }]"},
		{"id":"b","body":"export default [s => ({ leak: typeof leak, array: [].leak, when: s.when })]"}]`
	run := mockserver.Run{Plan: json.RawMessage(`{"id":"` + runtest.NewID() + `","jobs":` + jobs + `,"edges":[{"id":"e","source_job_id":"a","target_job_id":"b","condition":"Array.prototype.leak === undefined"}]}`)}
	record := runtest.New(t, New(Config{})).Run(t.Context(), runner.Limits{}, run)
	require.JSONEq(t, `{"leak":"undefined","when":"1970-01-01T00:00:00.000Z"}`, string(record.FinalState), record.ErrorMessage)
}

func TestTheInputOfAStep(t *testing.T) {
	tests := []struct{ name, input, defaults, credential, want string }{
		{name: "nothing", want: `{"configuration":{},"data":{}}`},
		{name: "a dataclip", input: `{"data":{"a":1},"x":2}`, want: `{"configuration":{},"data":{"a":1},"x":2}`},
		{name: "defaults below a dataclip", input: `{"data":{"a":1}}`, defaults: `{"data":{"a":0,"b":2},"x":3}`, want: `{"configuration":{},"data":{"a":1,"b":2},"x":3}`},
		{name: "defaults alone", defaults: `{"data":{"b":2}}`, want: `{"configuration":{},"data":{"b":2}}`},
		{name: "a credential", input: `{"configuration":{"a":1,"b":1}}`, credential: `{"b":2}`, want: `{"configuration":{"a":1,"b":2},"data":{}}`},
		{name: "a credential that is no object", credential: `"text"`, want: `{"configuration":{},"data":{}}`},
	}
	w := runtest.New(t, New(Config{}))
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			job := `{"id":"a","body":"export default [s => ({ seen: JSON.stringify(s) })]"`
			if tt.defaults != "" {
				job += `,"state":` + tt.defaults
			}
			run := mockserver.Run{}
			if tt.credential != "" {
				job += `,"credential":"c"`
				run.Credentials = map[string]json.RawMessage{"c": json.RawMessage(tt.credential)}
			}
			run.Plan = json.RawMessage(`{"id":"` + runtest.NewID() + `","jobs":[` + job + `}]}`)
			if tt.input != "" {
				run.Dataclip = json.RawMessage(tt.input)
			}
			record := w.Run(t.Context(), runner.Limits{}, run)
			var state struct{ Seen string }
			require.NoError(t, json.Unmarshal(record.FinalState, &state), record.ErrorMessage)
			require.JSONEq(t, tt.want, state.Seen)
		})
	}
}

// Guards against walks that visit what has no code once for each of 2^40 paths.
func TestAPlanWithMorePathsThanCanBeTaken(t *testing.T) {
	layers := func(n int, condition string) []string {
		var edges []string
		for i := range n {
			for _, from := range []string{"a", "b"} {
				for _, to := range []string{"a", "b"} {
					edges = append(edges, fmt.Sprintf("bare-%s%d>bare-%s%d %s", from, i, to, i+1, condition))
				}
			}
		}
		return edges
	}
	tests := []struct {
		name, reason, kind, message string
		edges                       []string
	}{
		{name: "many", edges: layers(40, ""), reason: "crash", kind: "ValidationError", message: "through jobs without code, over the limit of 100000"},
		{name: "few", edges: layers(5, ""), reason: "success"},
		{name: "many that are not taken", edges: layers(40, "false"), reason: "success"},
		{name: "many that are found as they are taken", edges: layers(9, "true"), reason: "kill", kind: "StepLimitError", message: "The run came to more than 500 nodes"},
	}
	engine := New(Config{})
	engine.maxVisits = 500
	w := runtest.New(t, engine)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			record := w.Run(t.Context(), runner.Limits{}, workflow(tt.edges))
			require.Equal(t, []string{tt.reason, tt.kind}, []string{record.Reason, record.ErrorType}, record.ErrorMessage)
			require.Contains(t, record.ErrorMessage, tt.message)
		})
	}
}

// Guards against a recursion that needs more than the stack a process of Go may have, and against loops in loops.
func TestAPlanOfVeryManyNodes(t *testing.T) {
	const n = 50_000
	plan := &runner.Plan{Jobs: make([]runner.Job, n), Edges: make([]runner.Edge, 2*n-1)}
	id := func(i int) string { return fmt.Sprintf("job-%d", i) }
	for i := range n {
		plan.Jobs[i].ID = id(i)
		plan.Edges[i] = runner.Edge{SourceJobID: id(i), TargetJobID: id(i + 1)}
	}
	for i := range n {
		plan.Edges[n-1+i] = runner.Edge{SourceJobID: id(0), TargetJobID: id(i)}
	}
	plan.Edges[n-1].SourceJobID = id(n - 1) // a cycle at the very end
	defer debug.SetMaxStack(debug.SetMaxStack(1 << 20))
	batch, err := compile.NewCompiler(0).Start(t.Context(), nil, nil)
	require.NoError(t, err)
	_, err = newGraph(t.Context(), plan, make([]compile.Job, n), batch)
	require.ErrorContains(t, err, "Circular dependency: job-49999 <-> job-0")
	require.Nil(t, plan.CheckPaths())
}

// A state that waits, and what a leaf left, is in the worker's memory for as long as the run lasts.
func TestTheStatesOfARunAreBoundedTogether(t *testing.T) {
	edges := []string{"a>b", "a>c", "a>d", "b>x", "c>y", "d>z"}
	run := workflow(edges, `"options":{"run_memory_limit_mb":16}`)
	run.Plan = json.RawMessage(strings.ReplaceAll(string(run.Plan), "path:", "big: 'x'.repeat(1.8e6), path:"))
	record := runtest.New(t, New(Config{})).Run(t.Context(), runner.Limits{}, run)
	require.Equal(t, []string{"kill", "OOMError", "Run exceeded maximum memory usage"}, []string{record.Reason, record.ErrorType, record.ErrorMessage})
	require.Equal(t, "a b c", started(t, record)) // the state of a waits for d
}
