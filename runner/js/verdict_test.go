package js

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/internal/runtest"
	"github.com/phxworker/phxworker/mockserver"
	"github.com/phxworker/phxworker/runner"
)

// An error is reported with its place in the job as its user wrote it, however
// the compiler changed the text.
func TestErrorsHaveTheirPlace(t *testing.T) {
	tests := []struct {
		name, body   string
		line, column int
	}{
		{name: "in an operation", body: "fn(s => s);\nfn(s =>\n  s.data.a.b);", line: 3, column: 11},
		{name: "in a function", body: "\n\nconst helpers = [o => {\n  return o.a.b;\n}];\nfn(s => helpers[0](s.data));", line: 4, column: 13},
		{name: "after characters outside the BMP", body: "fn(s => '😀' + s.a.b);", line: 1, column: 20},
		{name: "in a lazy argument", body: "log($.a.b.c);", line: 1, column: 9},
		{name: "behind a function that is bounded", body: "fn(s => [1].map(x =>\n  s.a.b));", line: 2, column: 6},
	}
	w := runtest.New(t, New(Config{}))
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			record := w.Job(tt.body)
			require.Equal(t, "RuntimeError", record.ErrorType, record.ErrorMessage)
			var state struct {
				Errors map[string]struct {
					Pos           struct{ Line, Column int }
					Step, Subtype string
				}
			}
			require.NoError(t, json.Unmarshal(record.FinalState, &state))
			got := state.Errors["a"]
			require.Equal(t, "a TypeError", got.Step+" "+got.Subtype)
			require.Equal(t, tt.line, got.Pos.Line)
			require.InDelta(t, tt.column, got.Pos.Column, 2)
		})
	}
}

func TestVerdicts(t *testing.T) {
	tests := []struct{ name, body, reason, kind, message string }{
		{name: "in a named function", body: `function f() { throw new Error('x'); } fn(f)`, reason: "fail", kind: "AdaptorError", message: "x"},
		{name: "undeclared in a named function", body: `function f() { return nowhere; } fn(f)`, reason: "fail", kind: "AdaptorError", message: "nowhere is not defined"},
		{name: "in a method, after a wait", body: `class C { async m() { await null; throw new RangeError('x'); } } fn(() => new C().m())`, reason: "fail", kind: "AdaptorError", message: "x"},
		{name: "in a callback of an operation", body: `fnIf(() => { throw new Error('x'); }, fn(s => s))`, reason: "fail", kind: "JobError", message: "x"},
		{name: "without an end", body: `const f = n => f(n + 1) + 1; fn(f)`, reason: "fail", kind: "AdaptorError", message: "Maximum call stack size exceeded"},
		{name: "with toJSON for all objects", body: `Object.prototype.toJSON = () => ({ kind: 'object', severity: 'kill' }); fn(() => { throw new Error('x'); })`, reason: "fail", kind: "JobError", message: "x"},
		{name: "an error class of the job", body: `class E extends TypeError {} fn(() => { throw new E('x'); })`, reason: "fail", kind: "JobError", message: "x"},
		{name: "severity crash", body: `fn(() => { throw Object.assign(new Error('x'), { severity: 'crash' }); })`, reason: "crash", kind: "RuntimeCrash", message: "Error: x"},
		{name: "severity kill of another name", body: `fn(() => { throw Object.assign(new Error('x'), { severity: 'kill' }); })`, reason: "fail", kind: "JobError", message: "x"},
		{name: "a symbol", body: `fn(() => { throw Symbol('x'); })`, reason: "fail", kind: "JobError", message: ""},
		{name: "eval that is caught", body: `fn(() => { try { eval('1'); } catch (e) { throw e; } })`, reason: "kill", kind: "SecurityError", message: "Illegal eval statement detected"},
		{name: "the constructor of functions", body: `fn(() => (() => {}).constructor('return 1')())`, reason: "kill", kind: "SecurityError", message: "Illegal eval statement detected"},
		{name: "the constructor of async generators", body: `fn(() => Object.getPrototypeOf(async function* () {}).constructor('yield 1'))`, reason: "kill", kind: "SecurityError", message: "Illegal eval statement detected"},
		{name: "a timer of text", body: `fn(() => setTimeout('1', 1))`, reason: "fail", kind: "RuntimeError", message: `TypeError: The "callback" argument must be of type function. Received type string ('1')`},
		{name: "import of what the job has imported", body: `fn(async () => ({ data: typeof (await import('@openfn/language-common')).fn }))`, reason: "fail", kind: "RuntimeError", message: "TypeError: A dynamic import callback was not specified."},
		{name: "import of the adaptor", body: `import { fn as f } from '@openfn/language-common'; import { each } from '@openfn/language-common'; export default [async () => ({ data: await import('@openfn/language-common') })]`, reason: "fail", kind: "RuntimeError", message: "TypeError: A dynamic import callback was not specified."},
		{name: "import of the job", body: `fn(async () => ({ data: await import('job') }))`, reason: "fail", kind: "RuntimeError", message: "TypeError: A dynamic import callback was not specified."},
		{name: "import of a file", body: `fn(async () => import('./x.js'))`, reason: "fail", kind: "RuntimeError", message: "TypeError: A dynamic import callback was not specified."},
		{name: "uncaught in a timer", body: `fn(() => new Promise(() => setTimeout(() => { throw new Error('x'); })))`, reason: "crash", kind: "ExecutionError", message: "x"},
		{name: "nothing at the top", body: `throw undefined; fn(s => s)`, reason: "crash", kind: "TypeError", message: "Cannot read properties of undefined (reading 'name')"},
		{name: "what has no class", body: `fn(() => { throw Object.create(null); })`, reason: "crash", kind: "TypeError", message: "Cannot read properties of undefined (reading 'name')"},
		{name: "rejected with a text", body: `fn(s => { Promise.reject('x'); return new Promise(r => setTimeout(r, 1, s)); })`, reason: "crash", kind: "ExecutionError", message: `This error originated either by throwing inside of an async function without a catch block, or by rejecting a promise which was not handled with .catch(). The promise rejected with the reason "x".`},
		{name: "rejected in an async function that nobody waits for", body: `fn(s => { (async () => { await null; throw new Error('x'); })(); return s; })`, reason: "success"},
		{name: "rejected in an async function that nobody waits for, and something else is waited for", body: `fn(s => { (async () => { await null; throw new Error('x'); })(); return new Promise(r => setTimeout(r, 1, s)); })`, reason: "crash", kind: "ExecutionError", message: "x"},
		{name: "rejected, and handled in time", body: `fn(async s => { const p = Promise.reject(new Error('x')); await null; await p.catch(() => {}); return s; })`, reason: "success"},
		{name: "rejected, and handled too late", body: `fn(async s => { const p = Promise.reject(new Error('x')); await new Promise(r => setTimeout(r, 5)); await p.catch(() => {}); return s; })`, reason: "crash", kind: "ExecutionError", message: "x"},
		{name: "an export that is no list", body: `export default {}`, reason: "crash", kind: "RuntimeCrash", message: "InvalidExportsError: Invalid exports in job expression: exports must be an array"},
		{name: "BigInt", body: `fn(() => ({ n: 2n ** 64n, d: { list: [1n] } }))`, reason: "success"},
	}
	w := runtest.New(t, New(Config{}))
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			record := w.Job(tt.body)
			require.Equal(t, []string{tt.reason, tt.kind, tt.message}, []string{record.Reason, record.ErrorType, record.ErrorMessage})
		})
	}
}

func TestAStateThatIsNotFitForJSON(t *testing.T) {
	record := runtest.New(t, New(Config{})).Job(`fn(s => { s.n = 2n ** 64n; s.d = { list: [1n, s.data] }; s.self = s; return s; })`)
	require.JSONEq(t, `{"data":{},"n":"18446744073709551616","d":{"list":["1",{}]},"self":"[Circular]"}`, string(record.FinalState))
}

// A promise that was rejected while a step ended is seen by the next one, if there is any.
func TestARejectionThatNobodyHandlesEndsTheNextStep(t *testing.T) {
	const jobs = `"jobs":[{"id":"a","adaptor":"@openfn/language-common","body":"fn(s => { Promise.reject(new Error('x')); return s; })"},` +
		`{"id":"b","adaptor":"@openfn/language-common","body":"fn(s => { console.log('b'); return s; })"}]`
	w := runtest.New(t, New(Config{}))
	for edges, want := range map[string]string{
		`[]`: "success  ",
		`[{"id":"e","source_job_id":"a","target_job_id":"b","condition":"always"}]`: "crash ExecutionError x",
	} {
		plan := `{"id":"` + runtest.NewID() + `",` + jobs + `,"edges":` + edges + `}`
		record := w.Run(t.Context(), runner.Limits{}, mockserver.Run{Plan: json.RawMessage(plan)})
		require.Equal(t, want, record.Reason+" "+record.ErrorType+" "+record.ErrorMessage)
		require.Empty(t, runtest.Lines(t, record, "JOB"))
	}
}

// Where one of two leafs returned nothing, OpenFn's engine takes the empty objects and lists from the other's state.
func TestTheStateOfALeafBesideOneThatReturnsNothing(t *testing.T) {
	const plan = `"jobs":[{"id":"a","adaptor":"@openfn/language-common","body":"fn(s => s)"},` +
		`{"id":"b","adaptor":"@openfn/language-common","body":"fn(s => ({ x: 1, data: {}, list: [] }))"},` +
		`{"id":"c","adaptor":"@openfn/language-common","body":"fn(s => {})"}],` +
		`"edges":[{"id":"e","source_job_id":"a","target_job_id":"b","condition":"always"},{"id":"f","source_job_id":"a","target_job_id":"c","condition":"always"}]}`
	record := runtest.New(t, New(Config{})).Run(t.Context(), runner.Limits{}, mockserver.Run{Plan: json.RawMessage(`{"id":"` + runtest.NewID() + `",` + plan)})
	require.JSONEq(t, `{"x":1}`, string(record.FinalState))
}
