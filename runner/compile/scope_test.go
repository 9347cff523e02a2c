package compile_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/runner/compile"
)

var importedNames = regexp.MustCompile(`import \{ ([^}]*) \} from "any"`)

// imported compiles a body with an adaptor that could not be read, and returns what is imported from it.
func imported(t *testing.T, body string, adaptors ...compile.Adaptor) string {
	t.Helper()
	module, err := compile.Compile(compile.Job{Body: body, Adaptors: append(adaptors, compile.Adaptor{Name: "any"})})
	require.NoError(t, err)
	line, _, _ := strings.Cut(module.Code, "\n")
	if match := importedNames.FindStringSubmatch(line); match != nil {
		return match[1]
	}
	return ""
}

func TestDanglingNames(t *testing.T) {
	tests := []struct{ name, body, want string }{
		{"in the order of their use, once", "b(a); a(b)", "b, a"},
		{"members and keys are no names", "a.b.c({ d: e, f() {}, get g() {}, 'h': 1, [i]: j }).k?.l[m]", "a, e, i, j, m"},
		{"shorthand properties are", "a({ b, c })", "a, b, c"},
		{"spread", "a(...b, { ...c }, [...d])", "a, b, c, d"},
		{"templates", "a`${b}${`${c}`}`; `${d}`", "a, b, c, d"},
		{"labels are not", "a: for (;;) { break a }", ""},
		{"globals are not", "fn(state => JSON.stringify([undefined, NaN, console, process, arguments, Math.max(1, Infinity)]))", "fn"},
		{"written to", "a = 1; b += 2; [c, d.e] = [f]; ({ g, h: i, ...j } = k); l++", "a, b, c, d, f, g, i, j, k, l"},
		{"var is hoisted out of blocks", "{ var a = 1 } if (x) for (var b in y) {} a; b", "x, y"},
		{"let, const and class are not", "{ let a; const b = 1; class c {} } a; b; c", "a, b, c"},
		{"functions are hoisted within their scope", "a(); function a() { b(); function b() {} } b()", "b"},
		{"parameters", "function f(a, [b, { c }], { d: e, ...g }, h = a, ...i) { a; b; c; e; g; h; i; d }", "d"},
		{"parameters of arrows", "(a, { b = c }) => { a; b }; async d => d; (...e) => e", "c"},
		{"names of function and class expressions", "(function f() { f }); (class C { m() { C } }); f; C", "f, C"},
		{"var in a function is its own", "function f() { var a; { a } } a", "a"},
		{"catch", "try { a } catch ({ message: b, ...c }) { b; c; message } finally { d } try {} catch { b }", "a, message, d, b"},
		{"loops", "for (let a = b; a < c; a++) a; for (const [d] of e) d; for (f of g) f; a; d", "b, c, e, f, g, a, d"},
		{"more loops", "for (a in b) c; for (var d = 0, e = f; d < g; d++); for (h = 1;;) break; while (i) j; do k; while (l); for (var [m] of n) m; d; e", "a, b, c, f, g, h, i, j, k, l, n"},
		{"switch", "switch (a) { case b: let c = 1; default: c } c", "a, b, c"},
		{"imports", "import a, { b, c as d } from 'x'; import * as e from 'y'; a; b; c; d; e", "c"},
		{"exports", "export { a, g as c }; const a = 1, g = b; export const { d } = 1; export function e() {} export class f {} d; e; f", "b"},
		{"exports from elsewhere", "export { a } from 'x'; export * as b from 'y'; b", "b"},
		{"default exports", "export default function a() { a; b }", "b"},
		{"classes", "class A extends B { [c] = d; #e = f; static g = h; static { var i = j; i } k(l) { l; this.#e; #e in m; super.n() } get [o]() {} }", "B, c, d, f, h, j, m, o"},
		{"generators and await", "async function* a() { yield b; yield* c; await d; for await (const e of f) e }", "b, c, d, f"},
		{"new and operators", "new a.b(c); new d; typeof e; delete f.g; h ?? i; j ? k : l; (m, n); new.target; import.meta.url", "a, c, d, e, f, h, i, j, k, l, m, n"},
		{"escapes and letters beyond ASCII", `\u0061(); größe(); const ñ = 1; ñ`, "a, größe"},
		{"lazy state is the state", "a($.b, $)", "a, $"},
		{"lazy state is left alone in a constant", "const a = { b: $.c, d: e($.f) };", "$, e"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			body := tt.body
			if tt.name == "new and operators" {
				body = "function z() { " + body + " }"
			}
			require.Equal(t, tt.want, imported(t, body))
		})
	}
}

func TestAdaptors(t *testing.T) {
	known := compile.Adaptor{Name: "known", Exports: []string{"fn", "unused"}}
	other := compile.Adaptor{Name: "other", Exports: []string{"fn", "collections"}}
	nothing := compile.Adaptor{Name: "nothing", Exports: []string{}}
	tests := []struct {
		name     string
		body     string
		adaptors []compile.Adaptor
		want     string
	}{
		{"none", "fn()", nil, ""},
		{"only what is used", "fn(x)", []compile.Adaptor{known}, `import { fn } from "known"; export * from "known"; `},
		{"nothing is used", "x()", []compile.Adaptor{known}, ""},
		{"nothing is exported", "x()", []compile.Adaptor{nothing}, ""},
		{"declared by the job", "const fn = 1; fn()", []compile.Adaptor{known}, ""},
		{
			"the first one wins", "fn(collections.get)",
			[]compile.Adaptor{known, other},
			`import { fn } from "known"; export * from "known"; import { collections } from "other"; export * from "other"; `,
		},
		{
			"one that could not be read comes last", "fn(collections.get, x)",
			[]compile.Adaptor{{Name: "any"}, other},
			`import { x } from "any"; export * from "any"; import { fn, collections } from "other"; export * from "other"; `,
		},
		{
			"a name to be quoted", "fn()",
			[]compile.Adaptor{{Name: "\"\n\u2028", Exports: []string{"fn"}}},
			`import { fn } from "\"\n\u2028"; export * from "\"\n\u2028"; `,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			module, err := compile.Compile(compile.Job{Body: tt.body, Adaptors: tt.adaptors})
			require.NoError(t, err)
			head, _, ok := strings.Cut(module.Code, "const ")
			require.True(t, ok)
			require.Equal(t, tt.want, head)
		})
	}
}
