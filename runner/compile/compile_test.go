package compile_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/grafana/sobek/parser"
	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/runner/compile"
)

// recorded is a job of the recorded runs in testdata/bodies.json. Error is what the real worker said of it, "" if it
// compiled.
type recorded struct {
	Vector, Job, Name, Adaptor, Body, Error string
}

func recordedJobs(t testing.TB) []recorded {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", "bodies.json"))
	require.NoError(t, err)
	var jobs []recorded
	require.NoError(t, json.Unmarshal(data, &jobs))
	require.NotEmpty(t, jobs)
	return jobs
}

func (r recorded) job() compile.Job {
	job := compile.Job{Name: r.Name, Body: r.Body}
	if job.Name == "" {
		job.Name = r.Job
	}
	if r.Adaptor != "" {
		job.Adaptors = []compile.Adaptor{{Name: r.Adaptor, Exports: []string{"fn", "each", "get", "log"}}}
	}
	return job
}

// accepted are the bodies that the original's older parser refuses and this one takes.
var accepted = map[string]string{
	"js-bigint-literal":       "BigInt literals",
	"js-class-field-instance": "class fields",
	"js-numeric-separator":    "numeric separators",
	"js-regex-flag-v":         "regular expressions are read by the engine",
}

// reworded are errors with another message than the recorded one.
var reworded = map[string]string{
	"js-hashbang": "a: Unexpected token (1:0)",
}

func TestRecordedBodies(t *testing.T) {
	for _, r := range recordedJobs(t) {
		t.Run(r.Vector+"/"+r.Job, func(t *testing.T) {
			module, err := compile.Compile(r.job())
			want := r.Error
			if text, ok := reworded[r.Vector]; ok {
				want = text
			}
			if _, ok := accepted[r.Vector]; want != "" && !ok {
				require.EqualError(t, err, want)
				return
			}
			require.NoError(t, err)
			requireModule(t, r.Body, module)
		})
	}
}

// requireModule requires that a module parses, and that each line of the body is where it was.
func requireModule(t testing.TB, body string, module *compile.Module) {
	t.Helper()
	code := module.Code
	if strings.Contains(code, "for await") {
		code = strings.ReplaceAll(code, "for await", "for      ")
	}
	_, err := parser.ParseFile(nil, "", code, 0, parser.IsModule, parser.WithDisableSourceMaps)
	require.NoError(t, err, "%s\n---\n%s", body, module.Code)
	want, got := strings.Count(body, "\n"), strings.Count(module.Code, "\n")
	require.Contains(t, []int{want, want + 2}, got, "the export is two lines, if it was added")
}

func TestErrors(t *testing.T) {
	tests := []struct {
		name string
		body string
		want string
	}{
		{"unexpected token", "fn(s => {\n  const x = ;\n})", "a: Unexpected token (2:12)"},
		{"unexpected first token of an object", "fn(state => {\n  return {;\n});", "a: Unexpected token (2:10)"},
		{"unexpected member of an object", "a = { b, ; }", "a: Unexpected token (1:9)"},
		{"end of the body", "fn(s => { return s", "a: Unexpected token (1:18)"},
		{"columns are code units", "log('é😀') }", "a: Unexpected token (1:11)"},
		{"string not closed", "fn('abc", "a: Unterminated string constant (1:3)"},
		{"regular expression not closed", "fn(/abc", "a: Invalid regular expression: missing / (1:3)"},
		{"character class not closed", "fn(1); /[/", "a: Invalid regular expression: missing / (1:7)"},
		{"hashbang", "#!/usr/bin/env node\nfn()", "a: Unexpected token (1:0)"},
		{"no UTF-8", "fn('\xff')", "a: Invalid UTF-8 character (1:4)"},
		{"return outside a function", "return 1", "a: 'return' outside of function (1:0)"},
		{"for await without of", "for await (const x in y) z(x)", "a: Unexpected token (1:4)"},
		{"for await in a plain loop behind others", "for (;;) break; for await (;;) break", "a: Unexpected token (1:20)"},
		{"an error behind a for await", "async () => { for await (const x of y) z(x) };\nconst", "a: Unexpected token (2:5)"},
		{"await that is not behind for", "await await", "a: Unexpected token (1:11)"}, //nolint:dupword // on purpose
		{"lazy state in a constant", "const x = $.data.x;", "a: Lazy State Error: Must be inside an operation (1:10)"},
		{"lazy state in a statement", "$.x = 1", "a: Lazy State Error: Must be inside an operation (1:0)"},
		{"lazy state in a function body", "fn(state => {\n  return $.x;\n})", "a: Lazy State Error: Must be inside an operation (2:9)"},
		{"lazy state in a function declaration", "function f() { return g($.x) + $.y }", "a: Lazy State Error: Must be inside an operation (1:31)"},
		{"lazy state in a class", "fn(class { x = $.y })", "a: Lazy State Error: Must be inside an operation (1:15)"},
		{"lazy state in another parameter", "fn(s => $.x)", `a: Lazy State Error: parameter "s" should be called "state" (1:3)`},
		{"lazy state in a pattern", "fn(({\n  a }) => $.x)", `a: Lazy State Error: parameter "{ a }" should be called "state" (1:3)`},
		{"lazy state without a parameter", "fn(() => $.x)", "a: Lazy State Error: parent has wrong arity (1:3)"},
		{"lazy state with two parameters", "fn((state, x) => $.x)", "a: Lazy State Error: parent has wrong arity (1:3)"},
		{"lazy state with a rest parameter", "fn((...state) => $.x)", `a: Lazy State Error: a rest parameter cannot be "state" (1:3)`},
		{"lazy state that is spread", "fn(...$.x)", "a: Lazy State Error: cannot be spread over arguments (1:6)"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := compile.Compile(compile.Job{Name: "a", Body: tt.body})
			require.EqualError(t, err, tt.want)
			var e *compile.Error
			require.ErrorAs(t, err, &e)
			require.Equal(t, "a", e.Name)
			require.Nil(t, e.Stack)
		})
	}
}

func TestErrorWithoutNameOrPosition(t *testing.T) {
	require.EqualError(t, &compile.Error{Message: "no"}, "no")
	require.EqualError(t, &compile.Error{Message: "no", Position: compile.Position{Line: 2, Column: 1}}, "no (2:0)")
}

// The parser panics on some code that is wrong; that must not reach the worker.
func TestParserPanicIsAnError(t *testing.T) {
	_, err := compile.Compile(compile.Job{Name: "a", Body: "x => import"})
	require.EqualError(t, err, "a: This code cannot be parsed")
	var e *compile.Error
	require.ErrorAs(t, err, &e)
	require.Contains(t, string(e.Stack), "parser")
}

// A stack overflow in Go ends the process, and nested parameter lists cost the parser twice the time each.
func TestDeepNestingIsRefused(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds, or fills the memory; nothing of it is concurrent")
	}
	const n = 1_000_000
	tests := []struct{ name, body string }{
		{"parentheses", strings.Repeat("(", n)},
		{"closed parentheses", strings.Repeat("(", n) + strings.Repeat(")", n)},
		{"objects", "x = " + strings.Repeat("{a:", n)},
		{"functions", strings.Repeat("x=>{", n)},
		{"templates", strings.Repeat("`${", n)},
		{"assignments", strings.Repeat("a=", n)},
		{"operators", strings.Repeat("!", n)},
		{"words", strings.Repeat("typeof ", n)},
		{"statements", strings.Repeat("if(a)", n)},
		{"calls", "f" + strings.Repeat("()", n)},
		{"members", "f" + strings.Repeat(".a", n)},
		{"parameter lists", strings.Repeat("(x=", 50) + "1" + strings.Repeat(")=>1", 50)},
		{"parameter lists in calls", strings.Repeat("f((x=", 50) + "1" + strings.Repeat(") => 1)", 50)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := compile.Compile(compile.Job{Body: tt.body})
			require.ErrorContains(t, err, "Nested too deeply")
		})
	}
}

// What is not refused must not exhaust the stack.
func TestNestingBelowTheBoundCompiles(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds, or fills the memory; nothing of it is concurrent")
	}
	const n = 12_000
	for _, body := range []string{
		strings.Repeat("(", n) + "fn()" + strings.Repeat(")", n),
		"x = " + strings.Repeat("[", n) + strings.Repeat("]", n),
		strings.Repeat("a=", n) + "1",
		"f" + strings.Repeat("()", n),
		"x" + strings.Repeat("+x", n),
		strings.Repeat("x=>{", n) + strings.Repeat("}", n),
	} {
		_, err := compile.Compile(compile.Job{Body: body})
		require.NoError(t, err)
	}
}

// A large body is not a deep one.
func TestLargeBodyCompiles(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds, or fills the memory; nothing of it is concurrent")
	}
	body := strings.Repeat("fn(state => { const { a, b } = state.data; return { ...state, sum: a + b } }).then(s => s);\n", 5_000)
	module, err := compile.Compile(compile.Job{Body: body, Adaptors: adaptors()})
	require.NoError(t, err)
	require.Len(t, module.Operations, 5_000)
	require.Equal(t, compile.Position{Line: 5_000, Column: 1}, module.Operations[4_999].Position)
}

func TestOperationsAndImports(t *testing.T) {
	module, err := compile.Compile(compile.Job{
		Body: "import _ from 'lodash';\nimport 'node:path'; export { x } from './x';\n" +
			"fn(async () => { await import('fs'); await import(name) });\n" +
			"\n  util.log.warn($.x);   get('/')\n    .then(fn);\nlib['x'](); (x => x)(1); import('y'); a?.b();",
		Adaptors: adaptors(),
	})
	require.NoError(t, err)
	require.Equal(t, []compile.Operation{
		{Name: "fn", Position: compile.Position{Line: 3, Column: 1}},
		{Name: "util.log.warn", Position: compile.Position{Line: 5, Column: 3}},
		{Name: "get", Position: compile.Position{Line: 5, Column: 25}},
		{Name: "", Position: compile.Position{Line: 7, Column: 1}},
		{Name: "", Position: compile.Position{Line: 7, Column: 13}},
	}, module.Operations)
	require.Equal(t, []compile.Import{
		{Module: "lodash", Position: compile.Position{Line: 1, Column: 1}},
		{Module: "node:path", Position: compile.Position{Line: 2, Column: 1}},
		{Module: "./x", Position: compile.Position{Line: 2, Column: 21}},
		{Module: "fs", Dynamic: true, Position: compile.Position{Line: 3, Column: 31}},
		{Module: "y", Dynamic: true, Position: compile.Position{Line: 7, Column: 33}},
		{Module: "@openfn/runtime"},
		{Module: adaptorName},
	}, module.Imports)
}
