package js

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/runner"
)

func TestCanRun(t *testing.T) {
	common := "@openfn/language-common@3.3.4"
	tests := []struct {
		name, adaptor, body string
		condition, globals  string
		want                bool
	}{
		{name: "basic operations", adaptor: common, body: "fn(s => s)", want: true},
		{name: "latest", adaptor: "@openfn/language-common@latest", body: "fn(s => s)", want: true},
		{name: "no version", adaptor: "@openfn/language-common", body: "fn(s => s)", want: true},
		{name: "no adaptor", body: "export default [s => s]", want: true},
		{name: "no body", adaptor: "@openfn/language-http@7.2.10", want: true},
		{name: "an adaptor nobody may import", adaptor: "left-pad@1.0.0", body: "fn(s => s)", want: true},
		{name: "an import nobody may make", adaptor: common, body: "import fs from 'fs'; fn(s => s)", want: true},
		{name: "what does not parse", adaptor: common, body: "fn(", want: true},
		{name: "another adaptor", adaptor: "@openfn/language-http@7.2.10", body: "get('/')"},
		{name: "an older major version", adaptor: "@openfn/language-common@1.15.0", body: "fn(s => s)"},
		{name: "a later one", adaptor: "@openfn/language-common@4.0.0", body: "fn(s => s)"},
		{name: "dates", adaptor: common, body: "fn(s => ({ ...s, at: new Date(), text: `${new Date()}` }))", want: inUTC},
		{name: "numbers of a language", adaptor: common, body: "fn(s => (1.5).toLocaleString('de-DE'))"},
		{name: "letters of a language", adaptor: common, body: "fn(s => 'I'.toLocaleLowerCase('tr'))"},
		{name: "the order of a language", adaptor: common, body: "fn(s => ['z', 'ä'].sort((a, b) => a.localeCompare(b, 'sv')))"},
		{name: "Intl", adaptor: common, body: "fn(s => new Intl.NumberFormat('en-IN').format(1234567))"},
		{name: "a global that is not built in", adaptor: common, body: "fn(s => ({ ...s, data: Buffer.from(s.data) }))"},
		{name: "the words of an error", adaptor: common, body: "fn(s => { try { return s.a.b; } catch (e) { return { ...s, data: e.message }; } })"},
		{name: "what a state is made of", adaptor: common, body: "fn(s => ({ ...s, data: s.data instanceof Array }))"},
		{name: "an order", adaptor: common, body: "fn(s => ({ ...s, data: s.data.sort() }))", want: true},
		{name: "an order that contradicts itself", adaptor: common, body: "fn(s => ({ ...s, data: s.data.sort((a, b) => a > b) }))"},
		{name: "an order by a function of its own name", adaptor: common, body: "fn(s => ({ ...s, data: s.data.toSorted ?. (\n byName) }))"},
		{name: "the last digit of a power", adaptor: common, body: "fn(s => ({ ...s, data: 1.1 ** s.data }))"},
		{name: "of another function", adaptor: common, body: "fn(s => ({ ...s, data: Math . hypot(1, 1.5) }))"},
		{name: "of one by a name of its own", adaptor: common, body: "const { exp } = Math; fn(s => ({ ...s, data: exp(2) }))"},
		{name: "what has no such digit", adaptor: common, body: "/** Rounds.\n **/ fn(s => ({ ...s, data: Math.round(s.data * Math.PI) }))", want: true},
		{name: "digits of another base", adaptor: common, body: "fn(s => ({ ...s, data: s.data.toString(36) }))"},
		{name: "digits", adaptor: common, body: "fn(s => ({ ...s, data: s.data.toString() + `${s.toString}` }))", want: true},
		{name: "what a pattern found last", adaptor: common, body: "fn(s => ({ ...s, data: /(a)/.test(s.data) && RegExp.$1 }))"},
		{name: "a pattern", adaptor: common, body: "fn(s => ({ ...s, data: new RegExp(s.data).exec('a') }))", want: true},
		{name: "what QuickJS lacks", adaptor: common, body: "fn(async s => ({ ...s, data: await Array.fromAsync(s.data) }))"},
		{name: "numbers that are exact", adaptor: common, body: "/** Rounds * **/ fn(s => ({ ...s, data: Math.round(Math\n .max(s.a, Math?.PI) * 100) / 100 /***/ }))", want: true},
		{name: "a power that is assigned", adaptor: common, body: "fn(s => { s.data.n **= 2; return s; })"},
		{name: "the words of an error for a second function", adaptor: common, body: "fn(async s => ({ ...s, data: await s.f(',)').then((a, b) => a, e => e.message) }))"},
		{name: "a promise and one function", adaptor: common, body: "fn(async s => ({ ...s, data: await s.f().then(\n(a, b) => [a, '),'],\n) }), 2)", want: true},
		{name: "words in globals", adaptor: common, body: "fn(s => s)", globals: "export const bmi = (w, h) => w / Math.pow(h, 2)"},
		{name: "a language in globals", adaptor: common, body: "fn(s => s)", globals: "export const f = n => new Intl.NumberFormat('en').format(n)"},
		{name: "a global that is not built in, in globals", adaptor: common, body: "fn(s => s)", globals: "export const f = t => Buffer.from(t)"},
		{name: "words in other words", adaptor: common, body: "fn(s => ({ ...s, catches: s.data.resort(1), Dates: s.sorted(2), x10nn: 5 }))", want: true},
		{name: "numbers without an end", adaptor: common, body: "fn(s => ({ ...s, data: 5n }))"},
		{name: "a language in a condition", adaptor: common, body: "fn(s => s)", condition: "'a'.localeCompare(state.x) < 0"},
		{name: "an error in a condition", adaptor: common, body: "fn(s => s)", condition: "(() => { try { return state.a.b } catch (e) { return e.message } })()"},
		{name: "a language in globals", adaptor: common, body: "fn(s => s)", globals: "export const n = n => n.toLocaleString('de')"},
		{name: "an order in globals", adaptor: common, body: "fn(s => s)", globals: "export const order = list => list.sort((a, b) => a > b)"},
		{name: "Buffer in globals", adaptor: common, body: "fn(s => s)", globals: "export const hex = text => Buffer.from(text)"},
		{name: "globals", adaptor: common, body: "fn(s => s)", globals: "export const n = 1;", want: true},
		{name: "an operation that is not built in", adaptor: common, body: "fn(s => s); parseCsv($.data)"},
		{name: "one of the last version", adaptor: common, body: "combine(fn(s => s))", want: true},
		{name: "one that an older version does otherwise", adaptor: "@openfn/language-common@3.3.1", body: "combine(fn(s => s))"},
		{name: "another module", adaptor: common, body: "import { get } from '@openfn/language-http'; fn(s => s)"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			plan := &runner.Plan{Jobs: []runner.Job{{ID: "a", Body: "fn(s => s)"}, {ID: "b", Adaptor: tt.adaptor, Body: tt.body}}}
			if tt.globals != "" {
				plan.Globals, _ = json.Marshal(tt.globals)
			}
			plan.Edges = []runner.Edge{{SourceJobID: "a", TargetJobID: "b", Condition: tt.condition}}
			require.Equal(t, tt.want, New(Config{}).CanRun(t.Context(), &runner.Run{Plan: plan}) == nil)
		})
	}
}
