package recorded

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/internal/runtest"
	"github.com/phxworker/phxworker/mockserver"
	"github.com/phxworker/phxworker/runner"
	"github.com/phxworker/phxworker/runner/js"
)

// What a plan comes to is the same in both engines, of which one has OpenFn's own runtime: which steps are executed
// and in what order, what each leaves, what is logged, and the final state, with its members in their order. What each comes
// to there is kept in testdata/plans.golden, for Node is dear; a part of them is executed there each time.
func TestPlansComeToTheSameInBothEngines(t *testing.T) {
	const generated = 150
	r := rand.New(rand.NewPCG(1, 0))
	plans := plansOfTest
	for i := range generated {
		plans = append(plans, randomPlan(r, fmt.Sprintf("generated %d", i)))
	}
	kept := ofNode(t, "plans.golden", len(plans), func(w *runtest.Bench, i int) string { return outcomeOfPlan(w, plans[i]) })
	t.Run("js", func(t *testing.T) {
		w := runtest.New(t, js.New(js.Config{}))
		for i, p := range plans {
			if testing.Short() && i%everyInNode != 0 {
				continue
			}
			want, got := strings.Split(kept[i], outcomeSeparator), strings.Split(outcomeOfPlan(w, p), outcomeSeparator)
			require.Equal(t, want, got, "%s: %s", p.name, p.plan(""))
		}
	})
}

// planOfTest is a plan of jobs of language-common.
type planOfTest struct {
	name string
	// jobs are "id: code", or "id" for one without code; the first starts.
	jobs []string
	// edges are "from>to", or "from>to: condition".
	edges []string
	// members are further members of jobs, by the id, and of the plan, by "".
	members map[string]string
	input   string
}

func (p planOfTest) plan(id string) json.RawMessage {
	var jobs, edges []string
	for _, job := range p.jobs {
		name, code, has := strings.Cut(job, ": ")
		members := fmt.Sprintf(`"id":%q,"adaptor":"@openfn/language-common@3.3.4"`, name)
		if has {
			members += `,"body":` + asJSON(code)
		}
		if more := p.members[name]; more != "" {
			members += "," + more
		}
		jobs = append(jobs, "{"+members+"}")
	}
	for i, edge := range p.edges {
		ends, condition, has := strings.Cut(edge, ": ")
		from, to, _ := strings.Cut(ends, ">")
		members := fmt.Sprintf(`"id":"e%d","source_job_id":%q,"target_job_id":%q`, i, from, to)
		if has {
			members += `,"condition":` + asJSON(condition)
		}
		edges = append(edges, "{"+members+"}")
	}
	text := fmt.Sprintf(`{"id":%q,"jobs":[%s],"edges":[%s]`, id, strings.Join(jobs, ","), strings.Join(edges, ","))
	if more := p.members[""]; more != "" {
		text += "," + more
	}
	return json.RawMessage(text + "}")
}

var (
	tookOfPlan = regexp.MustCompile(`\d+ms|\d+(\.\d+)?s\b`)
	// ownLines are those of the worker, those that only one engine has a reason for, and places of errors, which are compared
	// by TestErrorsAreTheSameInBothEngines.
	ownLines = regexp.MustCompile(`^(RTE|VER|R/T debug) |^R/T \w+ \["(Resolved adaptor|[^"]*ompil|Error occurred at:|\d+: | *\^)`)
	stacks   = regexp.MustCompile(`\\n    (at|@)[^"]*`)
)

// outcomeSeparator stands between the parts of an outcome, which is one line.
const outcomeSeparator = " | "

// outcomeOfPlan is what the server was told of a run.
func outcomeOfPlan(w *runtest.Bench, p planOfTest) string {
	run := mockserver.Run{Plan: p.plan(runtest.NewID()), Credentials: map[string]json.RawMessage{"cred": json.RawMessage(`{"user":"u","password":"hunter22"}`)}}
	if p.input != "" {
		run.Dataclip = json.RawMessage(p.input)
	}
	record := w.Run(w.T.Context(), runner.Limits{}, run)
	var out []string
	for _, e := range record.Events {
		var event struct {
			JobID    string          `json:"job_id"`
			Reason   string          `json:"reason"`
			Type     string          `json:"error_type"`
			Text     string          `json:"error_message"`
			Output   string          `json:"output_dataclip"`
			Source   string          `json:"source"`
			Level    string          `json:"level"`
			Message  []any           `json:"message"`
			Response json.RawMessage `json:"webhook_response"`
		}
		require.NoError(w.T, json.Unmarshal(e.Payload, &event))
		switch e.Event {
		case "step:start":
			out = append(out, event.JobID+" starts")
		case "step:complete":
			out = append(out, fmt.Sprintf("%s ends: %s %s %q %s %s", event.JobID, event.Reason, event.Type, event.Text, event.Output, event.Response))
		case "run:log":
			words := strings.ReplaceAll(tookOfPlan.ReplaceAllString(asJSON(event.Message), "<dur>"), record.ID, "<run>")
			if line := event.Source + " " + event.Level + " " + words; !ownLines.MatchString(line) {
				out = append(out, stacks.ReplaceAllString(line, ""))
			}
		}
	}
	out = append(out, fmt.Sprintf("%s %s %q", record.Reason, record.ErrorType, record.ErrorMessage), string(record.FinalState))
	return places.ReplaceAllString(strings.Join(out, outcomeSeparator), "")
}

const keep = "fn(s => s)"

var plansOfTest = []planOfTest{
	{name: "a leaf that is come to twice", jobs: []string{"a: " + keep, "b: fn(s => ({ ...s, b: 1 }))", "c: fn(s => ({ ...s, c: 1 }))", "x: fn(s => Object.keys(s))"}, edges: []string{"a>b", "a>c", "b>x", "c>x"}},
	{name: "a step that is a leaf the second time", jobs: []string{"a: " + keep, "b: fn(s => ({ ...s, b: 1 }))", "c: " + keep, "x: " + keep, "y: " + keep}, edges: []string{"a>b", "a>c", "b>x", "c>x", "x>y: state.b"}},
	{name: "a leaf without state that is come to twice", jobs: []string{"a: " + keep, "b: fn(s => ({ ...s, b: 1 }))", "c: " + keep, "x: fn(s => s.b ? null : s)", "z: fn(() => ({ z: 1 }))"}, edges: []string{"a>b", "a>c", "a>z", "b>x", "c>x"}},
	{name: "other names for conditions", jobs: []string{"a: " + keep, "b: fn(() => { throw new Error('no') })", "c: fn(() => ({ c: 1 }))", "d: " + keep}, edges: []string{"a>b: on_upstream_success", "b>c: on_upstream_fail", "b>d: on_upstream_success"}},
	{name: "two edges between the same", jobs: []string{"a: " + keep, "b: fn(s => ({ n: (s.n ?? 0) + 1 }))"}, edges: []string{"a>b", "a>b"}},
	{name: "two edges between the same, of which the last does not hold", jobs: []string{"a: " + keep, "c: " + keep, "b: " + keep}, edges: []string{"a>b", "a>c", "a>b: false"}},
	{name: "a job's own state", jobs: []string{"a: " + keep, "b: " + keep}, edges: []string{"a>b"}, members: map[string]string{"a": `"state":{"k":1,"data":{"x":1,"y":2},"configuration":{"c":1}}`, "b": `"state":{"k":2,"l":3,"data":{"x":5,"z":6},"references":[1],"errors":{"q":1}}`}, input: `{"data":{"y":3},"m":1}`},
	{name: "a job's own state of odd data", jobs: []string{"a: " + keep}, members: map[string]string{"a": `"state":{"data":[7,8]}`}, input: `{"data":{"y":3}}`},
	{name: "a job's own state whose data is text", jobs: []string{"a: " + keep}, members: map[string]string{"a": `"state":{"data":"ab"}`}, input: `{"z":1}`},
	{name: "data of zero beside a job's own", jobs: []string{"a: " + keep}, members: map[string]string{"a": `"state":{"data":{"y":1}}`}, input: `{"data":0}`},
	{name: "data that is a list beside a job's own", jobs: []string{"a: " + keep}, members: map[string]string{"a": `"state":{"data":{"y":1}}`}, input: `{"data":[1]}`},
	{name: "the order of members", jobs: []string{"a: fn(s => ({ keys: Object.keys(s), s }))"}, input: `{"b":1,"configuration":{"x":1},"c":2,"data":{"z":1},"d":3}`},
	{name: "the order of members with a credential", jobs: []string{"a: fn(s => ({ keys: Object.keys(s), c: Object.keys(s.configuration) }))"}, input: `{"configuration":{"x":1,"user":2},"c":2}`, members: map[string]string{"a": `"credential_id":"cred"`}},
	{name: "what is in configuration", jobs: []string{"a: fn(s => { s.configuration.more = 1; return { ...s, c: s.configuration } })", "b: fn(s => ({ ...s, k: Object.keys(s.configuration) }))"}, edges: []string{"a>b"}, members: map[string]string{"a": `"credential_id":"cred"`}},
	{name: "a configuration that is no object", jobs: []string{"a: fn(s => ({ c: s.configuration }))"}, input: `{"configuration":"ab"}`},
	{name: "a state that is text", jobs: []string{"a: fn(() => 'ab')", "b: fn(s => ({ keys: Object.keys(s) }))"}, edges: []string{"a>b"}},
	{name: "a state that is a number", jobs: []string{"a: fn(() => 7)", "b: " + keep}, edges: []string{"a>b"}},
	{name: "a state that is true", jobs: []string{"a: fn(() => true)", "b: " + keep}, edges: []string{"a>b: state === true"}},
	{name: "a state that is a list", jobs: []string{"a: fn(() => [1, { x: 2 }])", "b: " + keep}, edges: []string{"a>b"}},
	{name: "no state", jobs: []string{"a: fn(() => {})", "b: " + keep, "c: " + keep}, edges: []string{"a>b", "b>c: !state"}},
	{name: "no state, for conditions", jobs: []string{"a: fn(() => {})", "b: " + keep, "c: " + keep}, edges: []string{"a>b: on_job_success", "a>c: on_job_failure"}},
	{name: "no state between operations", jobs: []string{"a: fn(() => {}); fn(s => ({ was: s, keys: Object.keys(s) }))"}},
	{name: "false between operations", jobs: []string{"a: fn(() => false); fn(s => ({ was: s })); fn(() => ''); fn(s => ({ ...s, was: typeof s })); fn(() => 0)"}},
	{name: "no state, and a chain", jobs: []string{"a: fn(() => {}).then(s => ({ was: typeof s })); fn(s => s)"}},
	{name: "an execute of the job's own", jobs: []string{"a: export const execute = (...list) => async s => { for (const f of list) { s = await f(s); s.seen = (s.seen ?? 0) + 1 } return s };\nfn(() => {}); fn(() => {})"}},
	{name: "an execute that spreads", jobs: []string{"a: export const execute = (...list) => async s => { for (const f of list) s = { ...await f(s), more: 1 }; return s };\nfn(() => {});"}},
	{name: "no operations", jobs: []string{"a: const x = 1"}, input: `{"data":{"y":3}}`},
	{name: "code of nothing but space", jobs: []string{"a:   ", "b: " + keep}, edges: []string{"a>b"}, input: `{"x":1}`},
	{name: "no code", jobs: []string{"a", "b"}, edges: []string{"a>b"}, input: `{"x":1}`},
	{name: "no code at the end", jobs: []string{"a: fn(() => ({ a: 1 }))", "b"}, edges: []string{"a>b"}, input: `{"x":1}`},
	{name: "no code at one of two ends", jobs: []string{"a: fn(() => ({ a: 1, e: {} }))", "b", "c: fn(() => ({ c: 1 }))"}, edges: []string{"a>b", "a>c"}},
	{name: "no code at the end, and something empty", jobs: []string{"a: fn(() => ({ z: 1, e: {}, l: [], d: { data: {} }, n: { data: null }, t: '', a: { x: 2 } }))", "b"}, edges: []string{"a>b"}},
	{name: "no code in the middle", jobs: []string{"a: fn(s => ({ ...s, configuration: { x: 1 }, a: 1 }))", "b", "c: " + keep}, edges: []string{"a>b", "b>c: state.a"}},
	{name: "conditions that change the state", jobs: []string{"a: fn(s => ({ ...s, n: 1 }))", "b: " + keep, "c: " + keep}, edges: []string{"a>b: (state.n = 2)", "a>c: state.n === 2"}},
	{name: "an error that the job writes", jobs: []string{"a: fn(s => ({ ...s, errors: { a: { message: 'mine', name: 'N' } } }))", "b: " + keep, "c: " + keep}, edges: []string{"a>b: on_job_success", "a>c: on_job_failure"}},
	{name: "an error of another step", jobs: []string{"a: fn(s => ({ ...s, errors: { b: { message: 'mine', type: 'T' } } }))", "b: " + keep, "c: " + keep}, edges: []string{"a>b: on_job_success", "b>c: on_job_failure"}},
	{name: "an error that is a function", jobs: []string{"a: fn(s => ({ ...s, errors: { a: () => 1 } }))", "b: " + keep}, edges: []string{"a>b: on_job_success"}},
	{name: "an error after changes", jobs: []string{"a: fn(s => { s.data.x = 1; s.configuration.c = 2; s.response = 3; s.f = () => 1; throw new Error('x') })", "b: " + keep}, edges: []string{"a>b"}, input: `{"data":{"y":1}}`},
	{name: "an error that nothing handles", jobs: []string{"a: fn(s => { throw { message: 'm', code: 5, nested: { a: [1] } } })", "b: " + keep}, edges: []string{"a>b: !state.errors"}},
	{name: "errors of two branches", jobs: []string{"a: " + keep, "b: fn(() => { throw new Error('b') })", "c: fn(() => { throw new TypeError('c') })"}, edges: []string{"a>b", "a>c"}},
	{name: "a state with what JSON has not", jobs: []string{"a: fn(s => ({ d: new Date(0), f: () => 1, u: undefined, n: NaN, i: -Infinity, m: new Map([[1, 2]]), s: new Set([1]), r: /x/, y: Symbol('x'), l: [undefined, () => 1, NaN], o: Object.create({ inherited: 1 }), t: { toJSON() { return 'j' } }, e: new Error('x'), z: -0, g: { get x() { return 1 } } }))", "b: " + keep}, edges: []string{"a>b"}},
	{name: "a state that contains itself", jobs: []string{"a: fn(s => { const o = { l: [] }; o.self = o; o.l.push(o, { o }); return { o } })", "b: " + keep}, edges: []string{"a>b"}},
	{name: "a state that contains itself, with toJSON", jobs: []string{"a: fn(s => { const o = { d: new Date(0), t: { toJSON() { return { o: 1 } } } }; o.self = o; return o })"}},
	{name: "a promise in the state", jobs: []string{"a: fn(s => ({ p: Promise.resolve(1), x: 1 }))"}},
	{name: "a state of classes", jobs: []string{"a: fn(s => { class A { x = 1; #y = 2; get z() { return 3 } } return { a: new A(), b: new Number(5), c: new String('s'), d: [new Boolean(false)] } })"}},
	{name: "a state without a prototype", jobs: []string{"a: fn(s => { const o = Object.create(null); o.x = 1; return { o } })"}},
	{name: "a frozen state", jobs: []string{"a: fn(s => Object.freeze({ x: 1, l: [] }))", "b: " + keep}, edges: []string{"a>b"}},
	{name: "a frozen state that has a configuration", jobs: []string{"a: fn(s => Object.freeze(s))", "b: " + keep}, edges: []string{"a>b"}, input: `{"x":1}`},
	{name: "a failure with a frozen state", jobs: []string{"a: fn(s => { Object.freeze(s); throw new Error('no') })", "b: " + keep}, edges: []string{"a>b"}, input: `{"x":1}`},
	{name: "errors of jobs with names", jobs: []string{"a: fn(s => s.x.y)", "b: fn(function named(s) { return s.x.y })", "c: fn(s => { throw null })"}, edges: []string{"a>b", "b>c"}, members: map[string]string{"a": `"name":"Ünd ☃"`, "b": `"name":"b/c"`, "c": `"name":""`}},
	{name: "members named like those of objects", jobs: []string{"a: fn(s => JSON.parse('{\"__proto__\":{\"x\":1},\"constructor\":1,\"toString\":2}'))", "b: fn(s => ({ keys: Object.keys(s), s }))"}, edges: []string{"a>b"}, input: `{"__proto__":{"y":1},"data":{"__proto__":{"q":1}}}`},
	{name: "globals", jobs: []string{"a: fn(s => ({ ...s, g: helper(2), n: Object.isFrozen(list), m: (() => { try { list.push(1) } catch (e) { return 'refused' } return 'taken' })() }))", "b: fn(s => ({ ...s, l: list }))"}, edges: []string{"a>b"}, members: map[string]string{"": `"globals":"export const helper = x => x * 2; export const list = [1];"`}},
	{name: "globals named like those of the engine", jobs: []string{"a: fn(s => { console.log('x'); return { s: typeof s.data, p: parseInt('5'), t: typeof setTimeout } })", "b: fn(s => ({ x: typeof state, q: state === 5 }))"}, edges: []string{"a>b"}, members: map[string]string{"": `"globals":"export const console = { log() {} }; export const state = 5; export const parseInt = () => 9; export const setTimeout = 1;"`}},
	{name: "globals that count", jobs: []string{"a: fn(s => ({ ...s, n: next() + next() }))", "b: fn(s => ({ ...s, m: next() }))"}, edges: []string{"a>b"}, members: map[string]string{"": `"globals":"let n = 0; export function next() { return ++n }"`}},
	{name: "globals that the job changes", jobs: []string{"a: fn(s => { try { helper.x = 1 } catch (e) { return { no: e.name } } return { x: helper.x } })", "b: fn(s => { helper = 5; return { ...s, h: helper } })"}, edges: []string{"a>b"}, members: map[string]string{"": `"globals":"export const helper = { y: 1 }"`}},
	{name: "globals that log and export a default", jobs: []string{"a: fn(s => ({ d: typeof globalThis.default, f: fn2(1) }))"}, members: map[string]string{"": `"globals":"console.log('loaded', typeof state, typeof setTimeout); export default 5; export const fn2 = x => [x, typeof state];"`}},
	{name: "globals that fail", jobs: []string{"a: fn(s => s)"}, members: map[string]string{"": `"globals":"export const x = nothing.y"`}},
	{name: "globals of nothing but space", jobs: []string{"a: fn(s => s)"}, members: map[string]string{"": `"globals":"  "`}},
	{name: "globals with meta", jobs: []string{"a: fn(s => ({ m: meta }))"}, members: map[string]string{"": `"globals":"export const meta = { mine: 1 }"`}},
	{name: "what a job sees", jobs: []string{"a: fn(s => ({ l: Object.getOwnPropertyNames(globalThis).filter(n => /^[a-z]/.test(n)).sort(), t: typeof this, g: typeof globalThis.state }))"}},
	{name: "what jobs leave in the global object", jobs: []string{"a: fn(s => { globalThis.left = 1; Array.prototype.mine = 2; return s })", "b: fn(s => ({ l: typeof left, m: [].mine ?? null }))"}, edges: []string{"a>b"}},
	{name: "the global state", jobs: []string{"a: fn(s => ({ same: state === s, x: state.x })); fn(s => { state = 5; return { ...s, t: typeof state } })"}, input: `{"x":1}`},
	{name: "a webhook response", jobs: []string{"a: fn(s => ({ ...s, webhookResponse: { status: 201, body: { x: 1 } } }))", "b: fn(s => ({ ...s, webhookResponse: 'text' }))"}, edges: []string{"a>b"}},
	{name: "timers and promises", jobs: []string{"a: fn(async s => { const l = []; const i = setInterval(() => { l.push('i'); clearInterval(i) }, 1); setTimeout(() => l.push('t'), 20); clearTimeout(setTimeout(() => l.push('no'), 5)); await new Promise(r => setTimeout(r, 50)); await Promise.allSettled([Promise.reject(1)]); return { l } })"}},
	{name: "lines", jobs: []string{"a: console.log('top'); fn(s => { console.log('a', 1, { x: [1, { y: 2 }] }, null, undefined, true, [], () => 1, Symbol('s'), NaN, new Date(0), new Error('e'), 'b\\nc'); console.info('i'); console.warn('w'); console.error('e'); console.debug('d'); console.success('s'); return s })", "b: fn(s => { console.log(s); return s })"}, edges: []string{"a>b"}, input: `{"configuration":{"k":"v"},"data":{"x":1}}`},
	{name: "conditions of all kinds", jobs: []string{"a: fn(s => ({ ...s, n: 0, l: [] }))", "b: " + keep, "c: " + keep, "d: " + keep, "e: " + keep, "f: " + keep, "g: " + keep, "h: " + keep}, edges: []string{"a>b: state.n", "a>c: state.l", "a>d: state.l.length === 0; // c", "a>e: upstreamStepId === 'a'", "a>f: /* x */ true", "a>g: (() => { console.log('said'); return 1 })()", "a>h: typeof setTimeout === 'undefined' && typeof Date === 'function'"}},
	{name: "a condition that is no expression", jobs: []string{"a: " + keep, "b: " + keep}, edges: []string{"a>b: if (true) { return true }"}},
	{name: "no input, and no code at the start", jobs: []string{"a", "b: fn(s => ({ ...s, b: 1 }))", "c: " + keep}, edges: []string{"a>b: state", "a>c: !state"}},
	{name: "no state, and no code behind it", jobs: []string{"a: fn(() => {})", "b", "c: fn(s => ({ keys: Object.keys(s) }))"}, edges: []string{"a>b", "b>c: state"}},
	{name: "a circle", jobs: []string{"a: " + keep, "b: " + keep}, edges: []string{"a>b", "b>a"}},
	{name: "an edge to nowhere", jobs: []string{"a: " + keep}, edges: []string{"a>z"}},
	{name: "an unknown start", jobs: []string{"a: " + keep}, members: map[string]string{"": `"starting_node_id":"z"`}},
	{name: "a condition that does not end", jobs: []string{"a: " + keep, "b: " + keep}, edges: []string{"a>b: state.x === 'a"}},
	{name: "a condition over lines", jobs: []string{"a: " + keep, "b: " + keep}, edges: []string{"a>b: !state.x &&\n  !state.y"}},
	{name: "a condition that assigns", jobs: []string{"a: " + keep, "b: " + keep}, edges: []string{"a>b: (leftBehind = 1)"}},
	{name: "a condition that reads what another left", jobs: []string{"a: " + keep, "b: " + keep, "c: " + keep}, edges: []string{"a>b: (globalThis.left = 1)", "a>c: left === 1"}},
}

// randomPlan returns a plan of up to six jobs, whose edges go forward.
func randomPlan(r *rand.Rand, name string) planOfTest {
	of := func(list []string) string { return list[r.IntN(len(list))] }
	names := []string{"a", "b", "c", "d", "e", "f"}[:1+r.IntN(6)]
	p := planOfTest{name: name, members: map[string]string{}, input: of(inputsOfPlans)}
	for i, name := range names {
		job := name
		if r.IntN(8) > 0 {
			job += ": " + of(bodiesOfPlans)
		}
		p.jobs = append(p.jobs, job)
		var members []string
		if r.IntN(6) == 0 {
			members = append(members, `"state":`+of(statesOfPlans))
		}
		if r.IntN(6) == 0 {
			members = append(members, `"credential_id":"cred"`)
		}
		if r.IntN(3) == 0 {
			members = append(members, `"name":"Step `+name+`"`)
		}
		p.members[name] = strings.Join(members, ",")
		for _, to := range names[i+1:] {
			if r.IntN(len(names)-i) == 0 {
				p.edges = append(p.edges, name+">"+to+of(conditionsOfPlans))
			}
		}
	}
	r.Shuffle(len(p.edges), func(i, k int) { p.edges[i], p.edges[k] = p.edges[k], p.edges[i] })
	return p
}

var (
	inputsOfPlans = []string{"", `{}`, `{"data":{"x":1}}`, `{"data":[1,2]}`, `{"data":"t","n":5}`, `{"configuration":{"k":"v"},"x":1,"data":{}}`, `{"errors":{"b":{"message":"old","name":"Old"}}}`, `{"references":[1],"response":{"status":200}}`}
	statesOfPlans = []string{`{"data":{"d":1}}`, `{"k":1,"configuration":{"a":1}}`, `{"data":[7]}`, `{"n":1,"errors":{"x":1}}`, `{}`}
	bodiesOfPlans = []string{
		keep, keep, "fn(s => ({ ...s, n: (s.n ?? 0) + 1 }))", "fn(s => { s.n = (s.n ?? 0) + 1; return s })", "fn(() => ({ fresh: 1 }))", "fn(() => {})", "fn(() => null); fn(s => s)",
		"fn(() => { throw new Error('no') })", "fn(s => { s.before = 1; s.nothing.y })", "fn(s => { throw 'text' })", "fn(() => ({ l: [], o: {}, x: 1 }))", "fn(() => [1])", "fn(() => 'text')", "fn(() => 7)",
		"fn(s => ({ ...s, keys: Object.keys(s), c: Object.keys(s.configuration) }))", "fn(s => ({ ...s, errors: { ...s.errors, c: { message: 'made' } } }))", "fn(s => ({ data: s.data, references: s.references }))",
		"fn(s => { delete s.errors; return s })", "fn(s => ({ ...s, response: { status: 1 }, f: () => 1 }))", "fn($.data)", "each('$.data', fn(s => s))", "const x = 1", "fn(s => { console.log(s); return s })", " ",
	}
	conditionsOfPlans = []string{"", "", ": always", ": on_job_success", ": on_job_failure", ": state.n", ": !state.errors", ": state.data", ": (state.n = 9)", ": state?.x === 1", ": false", ": upstreamStepId === 'b'", ": Object.keys(state).length > 2"}
)
