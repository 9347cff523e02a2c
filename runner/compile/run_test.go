package compile_test

import (
	"regexp"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/runner/compile"
)

func TestCompiledJobRuns(t *testing.T) {
	tests := []struct {
		name  string
		body  string
		state string
		want  string
	}{
		{
			name: "operations run in the order of the source",
			body: "log('a');\nlog('b')\nlog('c')",
			want: `{"logged":["a","b","c"],"executed":3}`,
		},
		{
			name: "operations are evaluated after constants declared below them",
			body: "log(greeting);\nconst greeting = 'hello';",
			want: `{"logged":["hello"],"executed":1}`,
		},
		{
			name: "no operations",
			body: "// nothing to do",
			want: `{}`,
		},
		{
			name: "lazy state is read when the operation runs",
			body: "fn(s => ({ ...s, n: 2 }));\nlog($.n, [$.n], { n: $.n, m: `${$.n}` }, 'plain');",
			want: `{"n":2,"logged":[2,[2],{"n":2,"m":"2"},"plain"],"executed":2}`,
		},
		{
			name:  "lazy state within an arrow that takes the state",
			body:  "log(state => [$.list.length, $.n]);",
			state: `{"list":[1,2],"n":1}`,
			want:  `{"list":[1,2],"n":1,"logged":[[2,1]],"executed":1}`,
		},
		{
			name:  "lazy state as the object of a call",
			body:  "log($.list.filter(x => x > 1).length, $?.list?.[0]);",
			state: `{"list":[1,2]}`,
			want:  `{"list":[1,2],"logged":[1,1],"executed":1}`,
		},
		{
			name:  "lazy state in the arguments of a method of the state",
			body:  "const m = (...a) => a.join('+');\nfn(state => ({ ...state, m, f: m, list: [1, 2], a: { b: m } }));\nlog($.m($.n));\nlog($.m($.n, $.k), $.k, twice($.m($.n)));\nconst twice = f => s => f(s) + f(s);",
			state: `{"n":1,"k":2}`,
			want:  `{"n":1,"k":2,"list":[1,2],"a":{},"logged":["1","1+2",2,"11"],"executed":3}`,
		},
		{
			name:  "lazy state in the arguments of a method further down",
			body:  "const m = (...a) => a.join('+');\nfn(state => ({ ...state, a: { b: m } }));\nlog($.a.b($.n), !$.a.b($.n), [$['a']?.b($.n)], $.a.b($.a.b($.n), 3).length);",
			state: `{"n":1}`,
			want:  `{"n":1,"a":{},"logged":["1",false,["1"],3],"executed":2}`,
		},
		{
			name:  "lazy state in the functions that a method of the state takes",
			body:  "log($.list.map(x => x + $.n).filter((x, i) => i >= $.n));",
			state: `{"list":[1,2],"n":1}`,
			want:  `{"list":[1,2],"n":1,"logged":[[3]],"executed":1}`,
		},
		{
			name:  "lazy state in an argument within a method of the state",
			body:  "const call = f => f({ n: 5 });\nlog($.list.concat(call($.n)));",
			state: `{"list":[1,2],"n":1}`,
			want:  `{"list":[1,2],"n":1,"logged":[[1,2,5]],"executed":1}`,
		},
		{
			name:  "a method of the state in a function that takes the state",
			body:  "log(state => $.list.concat($.n));",
			state: `{"list":[1,2],"n":1}`,
			want:  `{"list":[1,2],"n":1,"logged":[[1,2,1]],"executed":1}`,
		},
		{
			name: "a declared $ is the job's own",
			body: "const $ = { v: 'mine' };\nlog($.v);\nfn(s => { const $ = { v: 'inner' }; return { ...s, v: $.v }; });",
			want: `{"logged":["mine"],"v":"inner","executed":2}`,
		},
		{
			name: "a chain waits for its operation",
			body: "later(1)\n  .then(s => ({ ...s, value: s.value + 1 }))\n  // and once more\n  .then(s => ({ ...s, value: s.value * 10 }));",
			want: `{"value":20,"executed":1}`,
		},
		{
			name: "a catch at the end of a chain gets the error of the chain",
			body: "later(1).then(() => { throw new Error('in then'); }).catch((e, s) => ({ caught: e.message, state: s === undefined }));",
			want: `{"caught":"in then","state":true,"executed":1}`,
		},
		{
			name: "a catch on the operation gets error and state, with and without more",
			body: "fails('one').catch((e, s) => ({ ...s, one: e.message }),);\n" +
				"fails('two').catch((e, s) => ({ ...s, two: e.message })).then(s => ({ ...s, three: true }));",
			want: `{"one":"one","two":"two","three":true,"executed":2}`,
		},
		{
			name: "a catch without a function",
			body: "later(1).catch().then(s => s);",
			want: `{"value":1,"executed":1}`,
		},
		{
			name: "parentheses in a chain",
			body: "((later(1)).then(s => ({ ...s, value: 2 }))).then(s => s);",
			want: `{"value":2,"executed":1}`,
		},
		{
			name:  "a chain as an argument",
			body:  "each($.items, later($.data).then(s => ({ ...s, sum: (s.sum ?? 0) + s.value })));",
			state: `{"items":[1,2,3]}`,
			want:  `{"items":[1,2,3],"value":3,"sum":6,"executed":1}`,
		},
		{
			name: "names that the compiler would use are the job's own",
			body: "const p = s => ({ ...s, p: 1 }), _defer = 2, _recover = 3, _op1 = 4, _op2 = 5;\n" +
				"later(_defer + _recover + _op1 + _op2).then(p);\nfails('x').catch((e, s) => s).then(p);",
			want: `{"value":14,"p":1,"executed":2}`,
		},
		{
			name: "await at the top level",
			body: "const one = await Promise.resolve(1);\nlog(await Promise.resolve(one + 1), one);",
			want: `{"logged":[2,1],"executed":1}`,
		},
		{
			name: "for await",
			body: "async function* slow() { yield 1; yield 2; }\nfn(async s => { for await (const v of slow()) s.sum = (s.sum ?? 0) + v; return s; });",
			want: `{"sum":3,"executed":1}`,
		},
		{
			name: "its own execute",
			body: "export const execute = (...ops) => state => ({ ...state, own: ops.length });\nlog(1);log(2)",
			want: `{"own":2}`,
		},
		{
			name: "its own default export",
			body: "export default [state => log(1)(state)];",
			want: `{"logged":[1],"executed":1}`,
		},
		{
			name: "operations before its own default export",
			body: "log(1);\nlog(2).then(s => s)\nexport default [log(3), log(4)];",
			want: `{"logged":[1,2,3,4],"executed":4}`,
		},
		{
			name: "operations before an empty default export",
			body: "log(one);\nconst one = 1;\nexport default [ /* [ */ ]",
			want: `{"logged":[1],"executed":1}`,
		},
		{
			name: "operations that await before its own default export",
			body: "log(await 1);\nexport default ([...[log(2)]]);",
			want: `{"logged":[1,2],"executed":2}`,
		},
		{
			name: "operations before a default export that is no array, or not the last statement",
			body: "log(1); const list = [log(2)];\nexport default list; log(3)",
			want: `{"logged":[2],"executed":1}`,
		},
		{
			name: "text that looks like code",
			body: "log('$.a', \"fn(\", `$.a ${ `${1 + 1}}` } )`, /[/$.a(]/.source, 4 / 2 / 1); /* log(9) */ // log(9)\nlog(\"it's\")",
			want: `{"logged":["$.a","fn(","$.a 2} )","[/$.a(]",2,"it's"],"executed":2}`,
		},
		{
			name: "statements without semicolons",
			body: "const a = 1\nlog(a)\nconst b = a\n  + 1\nlog(b)\ndo { } while (false) log(3)\n{ } log(4)",
			want: `{"logged":[1,2,3,4],"executed":4}`,
		},
		{
			name: "line ends of all kinds",
			body: "\ufefflog(1)\r\nlog(2)\rlog(3)\u2028log(4)",
			want: `{"logged":[1,2,3,4],"executed":4}`,
		},
		{
			name: "callees of all kinds",
			body: "const lib = { log };\n(log)(1);\nlib.log(2);\nlib['log'](3);\n(0, log)(4);\n((...a) => log(...a))(5);\n(function () { return log(6); })();\nlog.call(null, 7);\n(log(8))",
			want: `{"logged":[1,2,3,4,5,6,7,8],"executed":8}`,
		},
		{
			name: "callees that begin with other expressions",
			body: "let lib = { log }, n = 0;\n(lib?.log)(1);\n(lib = log)(2);\n(1 && log)(3);\n(true ? log : 0)(4);\n" +
				"(x => () => log(x))`t`(5);\n(await log)(6);\n(n++, -n, log)(7);\nnew (class { log = log })().log(n)",
			want: `{"logged":[1,2,3,4,["t"],6,7,1],"executed":8}`,
		},
		{
			name:  "a chain within lazy state is the job's own",
			body:  "log(({ of: x => Promise.resolve(x) })[$.k](1).then(x => x) instanceof Promise);",
			state: `{"k":"of"}`,
			want:  `{"k":"of","logged":[true],"executed":1}`,
		},
		{
			name: "a chain that no call begins is the job's own",
			body: "const promise = Promise['resolve'](1), seen = [];\npromise.then(x => seen.push(x)).catch(() => 0).toString;\nlog(seen);",
			want: `{"logged":[[1]],"executed":1}`,
		},
		{
			name: "a string over lines of all kinds",
			body: "log('a\\\r\nb\\\nc\\\rd'); log($.data ?? 'e\\\r\n(', `${`\r\n}`}`)\n/* ` */ log(1)",
			want: `{"logged":["abcd","e(","\n}",1],"executed":3}`,
		},
		{
			name: "templates in templates",
			body: "log(`\\`\\${ ${ `{${ `}` }` } $`);",
			want: `{"logged":["` + "`" + `${ {} $"],"executed":1}`,
		},
		{
			name: "statements that are no operations stay",
			body: "let n = 0;\nif (true) { log('ignored'); }\nn += 1;\nlog(n);\nfor (const k of [1, 2]) n += k;",
			want: `{"logged":[4],"executed":1}`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			module, err := compile.Compile(compile.Job{Name: "a", Body: tt.body, Adaptors: adaptors()})
			require.NoError(t, err)
			if tt.state == "" {
				tt.state = "{}"
			}
			require.Equal(t, tt.want, run(t, module.Code, tt.state), module.Code)
		})
	}
}

var frame = regexp.MustCompile(`job:(\d+):(\d+)`)

// An error at run time names a place in the module; the person wants the one in the body. QuickJS names the dot in
// front of the property that cannot be read, V8 the property.
func TestRuntimeErrorMapsToTheBody(t *testing.T) {
	tests := []struct {
		name string
		body string
		want compile.Position
	}{
		{"first line, behind the imports", "fn(s => s.a.b);", compile.Position{Line: 1, Column: 12}},
		{"behind edits on the line", "log($.x, $.y); fn(s => s.a.b)", compile.Position{Line: 1, Column: 27}},
		{"in lazy state", "log(1);\n\n  log($.a.b, 2);", compile.Position{Line: 3, Column: 10}},
		{"in a chain over lines", "later(1)\n .then(s => s)\n .then(s => s.a.b)", compile.Position{Line: 3, Column: 16}},
		{"after a catch", "later($.x).catch(e => e).then(s => s.a.b)", compile.Position{Line: 1, Column: 39}},
		{"behind characters of two code units", "log('😀'); fn(s => s.a.b)", compile.Position{Line: 1, Column: 23}},
		{"behind line ends that QuickJS does not count", "log(1)\rlog(2)\u2028fn(s => s.a.b)", compile.Position{Line: 3, Column: 12}},
		{"behind characters of several bytes", "log('é€'); fn(s => s.a.b)", compile.Position{Line: 1, Column: 23}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			module, err := compile.Compile(compile.Job{Body: tt.body, Adaptors: adaptors()})
			require.NoError(t, err)
			output := run(t, module.Code, "{}")
			match := frame.FindStringSubmatch(output)
			require.NotNil(t, match, output)
			line, _ := strconv.Atoi(match[1])
			column, _ := strconv.Atoi(match[2])
			got, ok := module.Original(line, column, compile.QuickJS)
			require.True(t, ok)
			require.Equal(t, tt.want, got, "%s\n%s", output, module.Code)
		})
	}
}
