package compile_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/runner/compile"
)

// What an engine refuses when it loads a module is refused before any step of the run starts, in the words and at the
// places of acorn 8.19, with which the wanted texts were made.
func TestEarlyErrors(t *testing.T) {
	tests := []struct{ body, want string }{
		{"let x = 1; let x = 2", "Identifier 'x' has already been declared (1:15)"},
		{"let x = 1;\n  let\n x = 2", "Identifier 'x' has already been declared (3:1)"},
		{"const é = 1; const é = 2", "Identifier 'é' has already been declared (1:19)"},
		{"var x; let x", "Identifier 'x' has already been declared (1:11)"},
		{"let x; { var x }", "Identifier 'x' has already been declared (1:13)"},
		{"function f(){} function f(){}", "Identifier 'f' has already been declared (1:24)"},
		{"function f(){} var f", "Identifier 'f' has already been declared (1:19)"},
		{"{ var a; function a(){} }", "Identifier 'a' has already been declared (1:18)"},
		{"function f() { let h; function h(){} }", "Identifier 'h' has already been declared (1:31)"},
		{"class C{} class C{}", "Identifier 'C' has already been declared (1:16)"},
		{"export class c {} class c {}", "Identifier 'c' has already been declared (1:24)"},
		{"export default function a(){} let a", "Identifier 'a' has already been declared (1:34)"},
		{"import a from 'x'; let a", "Identifier 'a' has already been declared (1:23)"},
		{"import * as a from 'x'; var a", "Identifier 'a' has already been declared (1:28)"},
		{"import {a, b as a} from 'x'", "Identifier 'a' has already been declared (1:16)"},
		{"let [a, {b: a}] = []", "Identifier 'a' has already been declared (1:12)"},
		{"let {x, ...x} = y", "Identifier 'x' has already been declared (1:11)"},
		{"try{}catch(e){ let e }", "Identifier 'e' has already been declared (1:19)"},
		{"try{}catch([e]){ var e }", "Identifier 'e' has already been declared (1:21)"},
		{"for (let i, i;;);", "Identifier 'i' has already been declared (1:12)"},
		{"for (let x of y) { var x }", "Identifier 'x' has already been declared (1:23)"},
		{"switch(1){case 1: let a; case 2: let a}", "Identifier 'a' has already been declared (1:37)"},
		{"fn(s => { let a; let a; return s })", "Identifier 'a' has already been declared (1:21)"},
		{"function f(s){ let s }", "Identifier 's' has already been declared (1:19)"},
		{"(s) => { let s }", "Identifier 's' has already been declared (1:13)"},
		{"(s, s) => s", "Argument name clash (1:4)"},
		{"function f({a}, a){}", "Argument name clash (1:16)"},
		{"({m(a,a){}})", "Argument name clash (1:6)"},
		{"with (s) { d }", "'with' in strict mode (1:0)"},
		{"fn(s => 010)", "Invalid number (1:8)"},
		{"({ 010: 1 })", "Invalid number (1:3)"},
		{`'\08'`, "Octal literal in strict mode (1:1)"},
		{`({ 'a\01': 1 })`, "Octal literal in strict mode (1:5)"},
		{`'\8'`, "Invalid escape sequence (1:2)"},
		{"`a${1}b\\08`", "Bad escape sequence in untagged template literal (1:6)"},
		{"`é\\08`", "Bad escape sequence in untagged template literal (1:1)"},
		{"fn(s => { delete s; return s })", "Deleting local variable in strict mode (1:10)"},
		{"delete ((s))", "Deleting local variable in strict mode (1:0)"},
		{"export { nothing }", "Export 'nothing' is not defined (1:9)"},
		{"export { x as y, \n nothing as z }; let x", "Export 'nothing' is not defined (2:1)"},
		{"/(/", "Invalid regular expression: /(/: Unterminated group (1:1)"},
		{"fn(s => /a\\/(/.test('x'))", "Invalid regular expression: /a\\/(/: Unterminated group (1:9)"},
		{"/)/", "Invalid regular expression: /)/: Unmatched ')' (1:1)"},
		{"/a|*b/", "Invalid regular expression: /a|*b/: Nothing to repeat (1:1)"},
		{"/(+)/", "Invalid regular expression: /(+)/: Nothing to repeat (1:1)"},
		{"/a/gg", "Duplicate regular expression flag (1:1)"},
		{"/a/x", "Invalid regular expression flag (1:1)"},
		{"/a/uv", "Invalid regular expression flag (1:1)"},
		{"(s => { let await = 1 })", "Cannot use keyword 'await' outside an async function (1:12)"},
		{"let yield", "The keyword 'yield' is reserved (1:4)"},
		{"x = static", "The keyword 'static' is reserved (1:4)"},
		{"({static})", "The keyword 'static' is reserved (1:2)"},
		{"function f(){ super.x }", "'super' keyword outside a method (1:14)"},
		{"({ a: () => super.x })", "'super' keyword outside a method (1:12)"},
		{"class A extends B { constructor(){ super() } m(){ super() } }", "super() call outside constructor of a subclass (1:50)"},
		{"class A { constructor(){ super() } }", "super() call outside constructor of a subclass (1:25)"},
		{"class A extends B { constructor(){ function f() { super() } } }", "'super' keyword outside a method (1:50)"},
		{"var eval = 1", "Binding eval in strict mode (1:4)"},
		{"function f(...arguments){}", "Binding arguments in strict mode (1:14)"},
		{"import {eval} from 'x'", "Binding eval in strict mode (1:8)"},
		{"eval = 1", "Assigning to eval in strict mode (1:0)"},
		{"arguments++", "Assigning to arguments in strict mode (1:0)"},
		{"({eval: eval} = {})", "Assigning to eval in strict mode (1:8)"},
		{"for ([arguments] of x);", "Assigning to arguments in strict mode (1:6)"},
		{"const a = 1, x\nfn()", "Unexpected token (2:0)"},
		{"fn(s => { const q })", "Unexpected token (1:18)"},
		{"for (const i;;);", "Unexpected token (1:12)"},
		{"({ a = 1 })", "Shorthand property assignments are valid only in destructuring patterns (1:5)"},
		{"fn({ x: { a = 1 } })", "Shorthand property assignments are valid only in destructuring patterns (1:12)"},
		{"if (a) function f() {}", "Unexpected token (1:7)"},
		{"if (a) ; else function f() {}", "Unexpected token (1:14)"},
		{"while (a) function f() {}", "Unexpected token (1:10)"},
		{"for (const a of b) function f() {}", "Unexpected token (1:19)"},
		{"l: function f() {}", "Unexpected token (1:3)"},
		{"export default 1; export default 2", "Duplicate export 'default' (1:25)"},
		{"class A { constructor() {} m() {} constructor() {} }", "Duplicate constructor in the same class (1:34)"},
		{"if (true) import a from 'b'", "'import' and 'export' may only appear at the top level (1:10)"},
		{"fn(() => { export const a = 1 })", "'import' and 'export' may only appear at the top level (1:11)"},
		{"fn(() => { break })", "Unsyntactic break (1:11)"},
		{"fn(() => { continue })", "Unsyntactic continue (1:11)"},
		{"try { fn(1) }", "Missing catch or finally clause (1:0)"},
		{"switch (a) { default: 1; default: 2 }", "Multiple default clauses (1:25)"},
		{"f() = 1", "Assigning to rvalue (1:0)"},
		{"({ a: 1 } = b)", "Assigning to rvalue (1:6)"},
		{"if (a) const x = 1", "Unexpected token (1:7)"},
		{"fn(state => { const x = await get(1) })", "Cannot use keyword 'await' outside an async function (1:24)"},
		{"fn(() => await get(1))", "Cannot use keyword 'await' outside an async function (1:9)"},
		{"fn(() => { yield 1 })", "The keyword 'yield' is reserved (1:11)"},
		{"fn(async () => { await ) })", "Unexpected token (1:23)"},
		{"fn(“abc”)", "Unexpected character '“' (1:3)"},
		{"@fn(1)", "Unexpected character '@' (1:0)"},
		{"fn('abc", "Unterminated string constant (1:3)"},
		{"fn(\"abc)\nfn(\"x\")", "Unterminated string constant (1:3)"},
		{"fn('a' 'b')", "Unexpected token (1:7)"},
	}
	for _, tt := range tests {
		t.Run(tt.body, func(t *testing.T) {
			_, err := compile.Compile(compile.Job{Body: tt.body})
			require.EqualError(t, err, tt.want)
		})
	}
}

// What only looks like such an error compiles.
func TestNoEarlyErrors(t *testing.T) {
	for _, body := range []string{
		"var a; var a; function f() { var f; var a; function a(){} function a(){} let x; { let x } }",
		"try{}catch(e){ var e; {let e} }", "for (let i;;) { let i }", "for (const x of y) { const x = 1 }", "for (const x in y);",
		"(function f(){ let f })", "(class C { m() { let C } })", "function f(a) { var a; { let a } }", "x => { var x; function x() {} }",
		"let f = 1; (a, b = () => { var a, f }) => 1", "const fn = x => x; fn(s => { let state, $ })", "const c = 1; c = 2",
		"fn(function () { arguments.x = 1; return arguments[0] })", "eval('x')", "import {eval as x, default as y} from 'x'",
		"let async, of, get, set, as, from, undefined; async => async", "({static: 1, yield: 2}).static", "delete s.x; delete s?.[x]; delete this",
		"({ get a() { return super.x }, m() { return () => super.y } }); class A extends B { constructor() { (() => super())() } x = super.x; static { super.y } }",
		"1.05 + 1e+05 + 0.5 + 0x01 + 0b01 + 0o1 + 0; ({ 0: '\\0', 1: `\\0`, '2': String.raw`\\08` })",
		`/[(*]\(\+|[|]?(a)?|(?:b)*?|(?<=a)(?<!b)(?!c)/u; /a??b*?c+?d{1,}?\\/dgimsuy; /[[(]--[b]]/v; /\|*\(?/`,
		"({ a = 1 } = {}); [{ b = 2 }] = [{}]; ({ c = 3 }) => c; for ({ d = 4 } of []); class A { constructor() {} static constructor() {} ['constructor']() {} }",
		"export { x as y, x as z }; let x; export * from 'a'; export { q } from 'b'", "'use strict'; fn(s => s)",
	} {
		_, err := compile.Compile(compile.Job{Body: body})
		require.NoError(t, err, body)
	}
}
