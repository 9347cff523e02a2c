package js

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/internal/runtest"
	"github.com/phxworker/phxworker/runner"
)

// Each job gets {"data": …} and its final state is compared. TestOperationsAreTheRealOnes has the rest.
func TestOperations(t *testing.T) {
	tests := []struct {
		name, input, body, want string
	}{
		{name: "fn", body: `fn(s => ({ x: 1 }))`, want: `{"x":1}`},
		{name: "alterState", body: `alterState(s => ({ x: 1 }))`, want: `{"x":1}`},
		{name: "fnIf", input: `{"n":1}`, body: `fnIf($.data.n, fn(s => ({ ...s, a: 1 }))); fnIf(false, fn(s => ({ ...s, b: 1 })))`, want: `{"data":{"n":1},"a":1}`},
		{name: "each over a path", input: `{"l":[1,2]}`, body: `each('$.data.l[*]', fn(s => ({ ...s, sum: (s.sum ?? 0) + s.data })))`, want: `{"data":2,"index":1,"sum":3}`},
		{name: "each over a path in a template", input: `{"l":[1,2]}`, body: "each(`data.l.*`, fn(s => ({ ...s, sum: (s.sum ?? 0) + s.data })))", want: `{"data":2,"index":1,"sum":3}`},
		{name: "each over a reference, with promises", input: `{"l":[1,2,3]}`, body: `each($.data.l, fn(async s => ({ ...s, sum: (s.sum ?? 0) + s.data })))`, want: `{"data":3,"index":2,"sum":6}`},
		{name: "each over nothing", input: `{"l":[]}`, body: `each($.data.l, fn(s => ({ ...s, met: true })))`, want: `{"data":{"l":[]}}`},
		{name: "map", body: `map([1, 2, 3], d => d + 1)`, want: `{"data":[2,3,4]}`},
		{name: "combine", body: `combine(fn(s => ({ ...s, a: 1 })), fn(async s => ({ ...s, b: s.a + 1 })), fn(s => ({ ...s, c: s.b + 1 })))`, want: `{"data":{},"a":1,"b":2,"c":3}`},
		{name: "as", input: `{"n":1}`, body: `as('twice', fn(s => ({ ...s, data: s.data.n * 2, more: true })))`, want: `{"data":{"n":1},"twice":2,"more":true}`},
		{name: "field and fields", input: `{"n":1}`, body: `fn(s => ({ data: fields(field('a', 1), field('b', dataValue('n')(s))) }))`, want: `{"data":{"a":1,"b":1}}`},
		{name: "references", input: `1`, body: `fn(s => composeNextState(s, { k: 3 })); fn(s => composeNextState(s, 4)); fn(s => ({ all: s.references, last: lastReferenceValue('k')({ references: [{ k: 5 }] }) }))`, want: `{"all":[1,{"k":3}],"last":5}`},
		{name: "execute", body: `fn(s => execute(fn(s => ({ a: 1 })), async s => ({ ...s, b: 2 }))(s))`, want: `{"a":1,"b":2}`},
		{name: "assert that holds", input: `{"n":1}`, body: `assert($.data.n === 1, 'no')`, want: `{"data":{"n":1}}`},
		{name: "index", input: `[1,2]`, body: `each('$.data[*]', fn(s => ({ ...s, at: index()(s) })))`, want: `{"data":2,"index":1,"at":1}`},
		{name: "explicit import", input: `[1,2]`, body: `import { fn as f, each as forEach } from '@openfn/language-common'; forEach('$.data[*]', f(s => ({ ...s, sum: (s.sum ?? 0) + s.data })))`, want: `{"data":2,"index":1,"sum":3}`},
		{name: "a name of its own", body: `const map = (list, f) => list.map(f); fn(() => ({ data: map([1, 2], n => n + 1) }))`, want: `{"data":[2,3]}`},
		{name: "promise chain", body: `fn(async () => ({ n: 1 })).then(s => ({ n: s.n + 1 })).then(s => ({ n: s.n * 10 }))`, want: `{"n":20}`},
		{name: "promise chain with catch", body: `fn(async () => { throw new Error('no'); }).catch((error, s) => ({ ...s, caught: error.message }))`, want: `{"data":{},"caught":"no"}`},
	}
	w := runtest.New(t, New(Config{}))
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			run := runtest.OneJob(tt.body)
			if tt.input != "" {
				run.Dataclip = json.RawMessage(`{"data":` + tt.input + `}`)
			}
			record := w.Run(t.Context(), runner.Limits{}, run)
			require.Equal(t, "success", record.Reason, record.ErrorMessage)
			require.JSONEq(t, tt.want, string(record.FinalState))
		})
	}
}

func TestOperationsThatFail(t *testing.T) {
	tests := []struct {
		name, body, kind, message string
	}{
		{name: "a list that is none", body: `each(() => null, fn(s => s))`, kind: "AdaptorError", message: "Cannot read properties of null (reading 'reduce')"},
		{name: "an assertion", body: `assert(false)`, kind: "AdaptorError", message: "assertion statement failed with false"},
	}
	w := runtest.New(t, New(Config{}))
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			record := w.Job(tt.body)
			require.Equal(t, []string{"fail", tt.kind, tt.message}, []string{record.Reason, record.ErrorType, record.ErrorMessage})
		})
	}
}

// Guards against a run that ends in success with other data than those of the real package: what is not built in is
// told before run:start, in all the ways in which a job can take it.
func TestWhatIsNotBuiltInIsToldBeforeTheRun(t *testing.T) {
	tests := []struct{ name, body, why string }{
		{name: "an operation", body: "fn(s => s)\nparseCsv($.data)", why: "uses parseCsv (line 2), which is not built in"},
		{name: "in another operation", body: `each($.data, fn(s => group(s.data, 'a')(s)))`, why: "uses group (line 1), which is not built in"},
		{name: "a namespace of the adaptor", body: `fn(s => http.get('https://example.org')(s))`, why: "uses http (line 1), which is not built in"},
		{name: "lodash", body: `fn(s => ({ ...s, data: _.uniq(s.data) }))`, why: "uses _ (line 1), which is not built in"},
		{name: "only looked at", body: `fn(s => ({ ...s, is: typeof cursor }))`, why: "uses cursor (line 1), which is not built in"},
		{name: "in a short property", body: `const all = { validate }; fn(s => all.validate()(s))`, why: "uses validate (line 1), which is not built in"},
		{name: "imported", body: `import { merge as m } from '@openfn/language-common'; fn(s => m('$.data', {})(s))`, why: "uses merge (line 1), which is not built in"},
		{name: "all imported", body: `import * as common from '@openfn/language-common'; common.fn(s => s)`, why: "imports all of @openfn/language-common (line 1), which is not built in"},
		{name: "the default imported", body: `import common from '@openfn/language-common'; common.fn(s => s)`, why: "imports all of @openfn/language-common (line 1), which is not built in"},
		{name: "exported again", body: `export * from '@openfn/language-common'; fn(s => s)`, why: "imports all of @openfn/language-common (line 1), which is not built in"},
		{name: "exported again by its name", body: `export { map as execute } from '@openfn/language-common'; fn(s => s)`, why: "uses map with a path that is not written out (line 1), which is not built in"},
		{name: "another adaptor imported", body: `import { get } from '@openfn/language-http'; fn(s => s)`, why: "imports @openfn/language-http (line 1), which is not built in"},
		{name: "a path with a filter", body: `each('$.data[?(@.a > 1)]', fn(s => s))`, why: `gives each the path "$.data[?(@.a > 1)]" (line 1), which is not built in`},
		{name: "a path that is computed", body: `each('$.data.' + 'l[*]', fn(s => s))`, why: "uses each with a path that is not written out (line 1), which is not built in"},
		{name: "a path from elsewhere", body: `const path = '$..a'; each(path, fn(s => s))`, why: "uses each with a path that is not written out (line 1), which is not built in"},
		{name: "a function that is handed on", body: `fn(s => ['a'].map(dataValue).map(f => f(s)))`, why: "uses dataValue with a path that is not written out (line 1), which is not built in"},
		{name: "arguments that are spread", body: `each(...['$..a', fn(s => s)])`, why: "uses each with a path that is not written out (line 1), which is not built in"},
	}
	w := runtest.New(t, New(Config{}))
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			record := w.Job(tt.body)
			require.Equal(t, []string{"exception", "AutoinstallError"}, []string{record.Reason, record.ErrorType}, record.ErrorMessage)
			require.Equal(t, "Error installing @openfn/language-common@3.3.4: job a "+tt.why+
				"; this run needs the OpenFn engine: install Node, and use --engine auto or openfn", record.ErrorMessage)
			require.Zero(t, record.StartedAt)
		})
	}
}

func TestPaths(t *testing.T) {
	const input = `{"store":{"book":[{"t":"A","p":8},{"t":"B","p":12,"isbn":"1"},{"t":"C","p":9,"isbn":"2"}],"odd":{"x":1}}}`
	tests := []struct{ path, want string }{
		{path: "$.data.store.book[*].t", want: `["A","B","C"]`},
		{path: "data.store.book[0].t", want: `["A"]`},
		{path: "$.data.store['odd'].x", want: `[1]`},
		{path: `$["data"]["store"].book.*.isbn`, want: `["1","2"]`},
		{path: "$.data.nothing.at.all", want: `[]`},
		{path: "$.data.store.book.length", want: `[3]`},
	}
	w := runtest.New(t, New(Config{}))
	for _, tt := range tests {
		t.Run(tt.path, func(t *testing.T) {
			path, _ := json.Marshal(tt.path)
			run := runtest.OneJob(`fn(s => ({ found: source(` + string(path) + `)(s) }))`)
			run.Dataclip = json.RawMessage(`{"data":` + input + `}`)
			record := w.Run(t.Context(), runner.Limits{}, run)
			require.JSONEq(t, `{"found":`+tt.want+`}`, string(record.FinalState), record.ErrorMessage)
		})
	}
}
