package js

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/runner/js/vm"

	"github.com/phxworker/phxworker/internal/runtest"
)

func TestConsole(t *testing.T) {
	tests := []struct {
		name, call string
		want       []string
	}{
		{name: "values", call: `console.log('a', 1, true, undefined, null, [1], { b: { c: 2 } })`, want: []string{`"a" 1 true null null [1] {"b":{"c":2}}`}},                            //nolint:dupword // as it must be
		{name: "what is no JSON", call: `console.log(NaN, Symbol('x'), () => 1, class K {}, function f() {}, 5n, { n: 5n })`, want: []string{`null null null null null "5" {"n":"5"}`}}, //nolint:dupword // as it must be
		{name: "nothing", call: `console.log(); console.log(null); console.log(undefined)`, want: []string{`null`}},
		{name: "errors", call: `console.log(new RangeError('x'), Object.assign(new Error('y'), { code: 1 }))`, want: []string{`{"name":"RangeError","message":"x"} {"name":"Error","message":"y","code":1}`}},
		{name: "circular", call: `const o = { a: 1 }; o.o = o; console.log(o, [o])`, want: []string{`{"a":1,"o":"[Circular]"} [{"a":1,"o":"[Circular]"}]`}},
		{name: "a configuration", call: `console.log({ configuration: { a: 1, b: { c: 2 } }, d: 3 })`, want: []string{`{"configuration":{"a":"****","b":"****"},"d":3}`}},
		{name: "a value that throws", call: `console.log({ toJSON() { throw new Error('no'); } })`, want: []string{`"[cannot be logged: no]"`}},
		{name: "no formats", call: `console.log('%s', 1)`, want: []string{`"%s" 1`}},
		{name: "detached", call: `const { log } = console; log('x'); [1].forEach(console.log)`, want: []string{`"x"`, `1 0 [1]`}},
	}
	w := runtest.New(t, New(Config{}))
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			record := w.Job(`fn(s => { ` + tt.call + `; return s; })`)
			require.Equal(t, "success", record.Reason, record.ErrorMessage)
			require.Equal(t, tt.want, runtest.Lines(t, record, "JOB"))
		})
	}
}

func TestTheLevelOfAJobsLines(t *testing.T) {
	const all = `fn(s => { for (const l of ['debug', 'log', 'info', 'success', 'warn', 'error', 'always']) console[l](l); return s; }); log('adaptor')`
	tests := []struct {
		level string
		want  []string
	}{
		{level: "debug", want: []string{`"debug"`, `"log"`, `"info"`, `"success"`, `"warn"`, `"error"`, `"always"`}},
		{level: "info", want: []string{`"log"`, `"info"`, `"success"`, `"warn"`, `"error"`, `"always"`}},
		{level: "default", want: []string{`"success"`, `"warn"`, `"error"`, `"always"`}},
		{level: "success", want: []string{`"success"`, `"warn"`, `"error"`, `"always"`}},
		{level: "warn", want: []string{`"success"`, `"warn"`, `"error"`, `"always"`}},
		{level: "error", want: []string{`"error"`}},
		{level: "none", want: []string{`"error"`}},
		{level: "one that there is not", want: []string{}},
	}
	w := runtest.New(t, New(Config{}))
	for _, tt := range tests {
		t.Run(tt.level, func(t *testing.T) {
			record := w.Job(all, `"options":{"job_log_level":"`+tt.level+`"}`)
			require.Equal(t, tt.want, runtest.Lines(t, record, "JOB"))
			require.Equal(t, []string{`"adaptor"`}, runtest.Lines(t, record, "ADA"))
		})
	}
}

// The engine's lines are worded as OpenFn's, for people who know those.
func TestTheEnginesOwnLines(t *testing.T) {
	w := runtest.New(t, New(Config{}))
	require.Contains(t, runtest.Lines(t, w.Job("fn(s =>\n  s.a.b);"), "R/T"), `"TypeError: Cannot read properties of undefined (reading 'b')\n    at line 2, column 6"`)
	record := w.Job(`assert(false, 'no')`)
	engine := runtest.Lines(t, record, "R/T")
	require.Equal(t, []string{`"Memory limit: 500mb"`, `"Timeout: 300s"`, `"Payload limit: 10mb"`}, runtest.Lines(t, record, "RTE"))
	require.Equal(t, []string{`"Versions:\n    ▸ worker                     dev\n    ▸ engine                     js\n    ▸ runtime                    quickjs ` + vm.Version + `\n    ▸ @openfn/language-common    3.3.4"`}, runtest.Lines(t, record, "VER"))
	for _, want := range []string{
		`"Compiling all workflow steps..."`, `"Starting step a"`, `"Error reported by \"assert()\" operation line 1:"`,
		`"Check state.errors.a for details"`, `"Run complete with status: fail"`,
	} {
		require.Contains(t, engine, want)
	}
}
