package js

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/internal/runtest"
	"github.com/phxworker/phxworker/runner"
)

// Each job gets {"data": …} and its final state is compared.
func TestOperations(t *testing.T) {
	tests := []struct {
		name, input, body, want string
	}{
		{name: "fn", body: `fn(s => ({ x: 1 }))`, want: `{"x":1}`},
		{name: "alterState", body: `alterState(s => ({ x: 1 }))`, want: `{"x":1}`},
		{name: "fnIf", input: `{"n":1}`, body: `fnIf($.data.n, fn(s => ({ ...s, a: 1 }))); fnIf(false, fn(s => ({ ...s, b: 1 })))`, want: `{"data":{"n":1},"a":1}`},
		{name: "each over a path", input: `{"l":[1,2]}`, body: `each('$.data.l[*]', fn(s => ({ ...s, sum: (s.sum ?? 0) + s.data })))`, want: `{"data":2,"index":1,"sum":3}`},
		{name: "each over a reference, with promises", input: `{"l":[1,2,3]}`, body: `each($.data.l, fn(async s => ({ ...s, sum: (s.sum ?? 0) + s.data })))`, want: `{"data":3,"index":2,"sum":6}`},
		{name: "each with a state", input: `{"l":[1]}`, body: `fn(s => each('$.data.l[*]', x => x, s))`, want: `{"data":1,"index":0}`},
		{name: "map", input: `{"l":[1,2]}`, body: `map('$.data.l[*]', s => ({ ...s, last: s.data }))`, want: `{"data":2,"last":2}`},
		{name: "combine", body: `combine(fn(s => ({ ...s, a: 1 })), fn(async s => ({ ...s, b: s.a + 1 })), fn(s => ({ ...s, c: s.b + 1 })))`, want: `{"data":{},"a":1,"b":2,"c":3}`},
		{name: "as", input: `{"n":1}`, body: `as('twice', fn(s => ({ ...s, data: s.data.n * 2 })))`, want: `{"data":{"n":1},"twice":2}`},
		{name: "group", input: `[{"k":"x","v":1},{"k":"y","v":2},{"k":"x","v":3}]`, body: `group($.data, 'k')`, want: `{"data":{"x":[{"k":"x","v":1},{"k":"x","v":3}],"y":[{"k":"y","v":2}]}}`},
		{name: "field and fields", input: `{"n":1}`, body: `fn(s => ({ data: fields(field('a', 1), field('b', dataValue('n')(s))) }))`, want: `{"data":{"a":1,"b":1}}`},
		{name: "merge", input: `{"l":[{"a":1},{"a":2}],"b":3}`, body: `fn(s => ({ data: merge(dataPath('l[*]'), fields(field('b', dataValue('b'))))(s) }))`, want: `{"data":[{"a":1,"b":3},{"a":2,"b":3}]}`},
		{name: "join", input: `{"l":[{"a":1}],"b":3}`, body: `fn(s => ({ data: join('$.data.l[*]', '$.data.b', 'b')(s) }))`, want: `{"data":[{"b":3,"a":1}]}`},
		{name: "references", input: `1`, body: `fn(s => composeNextState(s, 2)); fn(s => composeNextState(s, { k: 3 })); fn(s => composeNextState(s, 4)); fn(s => ({ all: s.references, last: lastReferenceValue('k')(s), path: referencePath('k') }))`, want: `{"all":[1,2,{"k":3}],"last":3,"path":"$.references[-1].k"}`},
		{name: "expandReferences", input: `{"n":1}`, body: `fn(s => ({ data: expandReferences({ a: [x => x.data.n, 2], b: { c: () => () => 3 }, d: new Date(0) }, s) }))`, want: `{"data":{"a":[1,2],"b":{"c":3},"d":"1970-01-01T00:00:00.000Z"}}`},
		{name: "execute", body: `fn(s => execute(fn(s => ({ a: 1 })), async s => ({ ...s, b: 2 }))(s))`, want: `{"a":1,"b":2}`},
		{name: "toArray, chunk, splitKeys", body: `fn(s => ({ a: toArray(1), b: toArray([1]), c: chunk([1, 2, 3], 2), d: splitKeys({ a: 1, b: 2 }, ['b']) }))`, want: `{"a":[1],"b":[1],"c":[[1,2],[3]],"d":[{"a":1},{"b":2}]}`},
		{name: "text", body: `fn(s => ({ a: arrayToString([1, 2], ', '), b: humanProper('a_SMALL house'), c: scrubEmojis('so 😀', '?') }))`, want: `{"a":"1, 2","b":"A Small House","c":"so ?"}`},
		{name: "assert that holds", input: `{"n":1}`, body: `assert($.data.n === 1, 'no'); assert('$.data.n', 'no')`, want: `{"data":{"n":1}}`},
		{name: "index", input: `[1,2]`, body: `each('$.data[*]', fn(s => ({ ...s, at: index()(s) })))`, want: `{"data":2,"index":1,"at":1}`},
		{name: "parseCsv", input: `"id;name\r\n1;\"a \"\"b\"\"; c\"\r\n\r\n2; d \r\n"`, body: `parseCsv($.data, { delimiter: ';' })`, want: `{"data":[{"id":"1","name":"a \"b\"; c"},{"id":"2","name":"d"}],"references":["id;name\r\n1;\"a \"\"b\"\"; c\"\r\n\r\n2; d \r\n"]}`},
		{name: "parseCsv without a header", input: `"1,2\n3,4"`, body: `parseCsv($.data, { columns: false }, (s, rows) => ({ rows }))`, want: `{"rows":[["1","2"],["3","4"]]}`},
		{name: "cursor with a default", body: `cursor($.cursor, { defaultValue: 5 }); cursor('x', { key: 'page', format: c => c + '!' })`, want: `{"data":{},"cursor":5,"page":"x!"}`},
		{name: "cursor with a date", body: `cursor('2 days ago', { format: d => Math.round((Date.now() - d) / 864e5) })`, want: `{"data":{},"cursor":2}`},
		{name: "validate", input: `{"a":"x","l":[1,"2"]}`, body: `validate({ properties: { a: { enum: ['x'] }, l: { items: { type: 'number' } } } })`, want: `{"data":{"a":"x","l":[1,"2"]},"validationErrors":[{"data":{"a":"x","l":[1,"2"]},"errors":[{"instancePath":"/l/1","schemaPath":"#/properties/l/items/type","keyword":"type","params":{"type":"number"},"message":"must be number"}]}]}`},
		{name: "validate with a schema from the state", input: `{"a":1}`, body: `fn(s => ({ ...s, schema: { required: ['b'] } })); validate(); fn(s => s.validationErrors[0].errors[0].message)`, want: `{"value":"must have required property 'b'"}`},
		{name: "explicit import", body: `import * as common from '@openfn/language-common'; import { fn as f } from '@openfn/language-common'; f(s => ({ same: common.fn === f }))`, want: `{"same":true}`},
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
		{name: "a list that is none", body: `each(() => null, fn(s => s))`, kind: "AdaptorError", message: "each() needs an array to go through, not null"},
		{name: "an assertion", body: `assert(false)`, kind: "AdaptorError", message: "assertion failed"},
		{name: "a path that is none", body: `fn(sourceValue('$.a[?'))`, kind: "AdaptorError", message: `"$.a[?" is not a path: unexpected end`},
		{name: "a CSV that is none", body: `parseCsv('a,b\n"x')`, kind: "AdaptorError", message: "Quote Not Closed: the parsing is finished with an opening quote at line 2"},
		{name: "a row that is too short", body: `parseCsv('a,b\nx')`, kind: "AdaptorError", message: "Invalid Record Length: columns length is 2, got 1 on record 1"},
		{name: "http", body: `http.get('https://example.org')`, kind: "JobError", message: "http.get() is not one of the basic operations; this job needs the OpenFn engine (--engine auto or openfn)"},
		{name: "dates", body: `fn(() => dateFns.addDays(new Date(), 1))`, kind: "AdaptorError", message: "dateFns.addDays() is not one of the basic operations; this job needs the OpenFn engine (--engine auto or openfn)"},
	}
	w := runtest.New(t, New(Config{}))
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			record := w.Job(tt.body)
			require.Equal(t, []string{"fail", tt.kind, tt.message}, []string{record.Reason, record.ErrorType, record.ErrorMessage})
		})
	}
}

func TestPaths(t *testing.T) {
	const input = `{"store":{"book":[{"t":"A","p":8},{"t":"B","p":12,"isbn":"1"},{"t":"C","p":9,"isbn":"2"}],"odd key":{"x":1}}}`
	tests := []struct{ path, want string }{
		{path: "$.data.store.book[*].t", want: `["A","B","C"]`},
		{path: "data.store.book[0].t", want: `["A"]`},
		{path: "$..t", want: `["A","B","C"]`},
		{path: "$.data.store['odd key'].x", want: `[1]`},
		{path: `$["data"]["store"].book[-1].t`, want: `["C"]`},
		{path: "$.data.store.book[0,2].t", want: `["A","C"]`},
		{path: "$.data.store.book[1:].t", want: `["B","C"]`},
		{path: "$.data.store.book[:-1].t", want: `["A","B"]`},
		{path: "$.data.store.book[::2].t", want: `["A","C"]`},
		{path: "$.data.store.book[?(@.isbn)].t", want: `["B","C"]`},
		{path: "$.data.store.book[?(!@.isbn)].t", want: `["A"]`},
		{path: "$.data.store.book[?(@.p < 10 && @.isbn)].t", want: `["C"]`},
		{path: "$.data.store.book[?(@.t == 'A' || @.p >= 12)].t", want: `["A","B"]`},
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
