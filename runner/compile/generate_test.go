package compile_test

import (
	"math/rand/v2"
	"strings"
)

// generator writes jobs out of the ways in which people write them, and out of some that they do not. The jobs of
// one seed are always the same.
type generator struct{ *rand.Rand }

func newGenerator(seed uint64) generator { return generator{rand.New(rand.NewPCG(seed, 0))} }

// oneOf returns one of some texts.
func (g generator) oneOf(texts ...string) string { return texts[g.IntN(len(texts))] }

// some returns up to most texts, with a separator between them.
func (g generator) some(most int, separator string, text func() string) string {
	list := make([]string, g.IntN(most+1))
	for i := range list {
		list[i] = text()
	}
	return strings.Join(list, separator)
}

// sometimes returns a text one time in n.
func (g generator) sometimes(n int, text string) string {
	if g.IntN(n) == 0 {
		return text
	}
	return ""
}

// job returns the body of a job.
func (g generator) job() string {
	var b strings.Builder
	b.WriteString(g.sometimes(12, g.declaration()+"\n"))
	for range 1 + g.IntN(3) {
		b.WriteString(g.sometimes(8, "// $.x, fn($.x)\n"))
		b.WriteString(g.statement())
		b.WriteString(g.oneOf(";\n", ";\n", "\n;", "; "))
	}
	b.WriteString(g.sometimes(10, g.declaration()+"\n"))
	b.WriteString(g.sometimes(12, g.oneOf("export const q = 1;\n", "export function execute(...list) { return async s => { for (const o of list) s = await o(s); return { ...s, own: true }; }; }\n")))
	b.WriteString(g.sometimes(10, "export default "+g.oneOf("[]", "[ /* ] */ ];\nconst late = 1", "([])", "c1", "{}")+";"))
	return b.String()
}

func (g generator) declaration() string {
	return g.oneOf(
		"const c1 = 3;", "let v1 = 'v';", "const c1 = { a: 1, f(s) { return s; }, g: s => s };", "const c1 = { a: $.x };",
		"function helper(x) { return x; }", "const helper = (x, y) => [x, y];", "var v1 = [1, 2];", "class Thing { m(x) { return x; } }",
		"const c1 = [s => s];", "const { c1 = 2 } = {};",
		"const c1 = () => { const $ = { x: 8 }; return $.x; };",
	)
}

func (g generator) statement() string {
	switch g.IntN(14) {
	case 0, 1, 2:
		return g.chain(g.oneOf("fn", "get", "later", "fails", "other", "util.op") + "(" + g.arguments(1) + ")")
	case 3:
		return "(" + g.call(2) + ")"
	case 4:
		return g.oneOf("if (true) { "+g.call(1)+" }", "v2 = 1", "'use strict'", "await "+g.call(1), "console.log('x')", "for (const i of [1]) { "+g.call(1)+" }", "helper", "1 + 1")
	default:
		return g.call(3)
	}
}

// chain puts promise chains behind a call.
func (g generator) chain(call string) string {
	for range 1 + g.IntN(3) {
		call += g.oneOf("", "", "\n  ") + g.oneOf(".then(", ".then(", ".catch(") + g.handler() + ")"
	}
	return call
}

func (g generator) handler() string {
	return g.oneOf("s => s", "state => ({ ...state, handled: 1 })", "(e, s) => ({ ...s, caught: e && e.message })", "() => { throw new Error('in handler'); }", "async s => s", "$.x")
}

// call is a call of an operation, depth levels deep at most.
func (g generator) call(depth int) string {
	return g.oneOf("fn", "fn", "get", "post", "each", "other", "util.op", "later", "fails", "helper2") + "(" + g.arguments(depth) + ")"
}

func (g generator) arguments(depth int) string {
	return g.some(3, g.oneOf(", ", ",", ",\n  "), func() string {
		if g.IntN(4) == 0 {
			return g.method(depth)
		}
		return g.sometimes(30, "...[1, 2], ") + g.argument(depth)
	})
}

// argument is one without a call of a method of the state that is a part of it.
func (g generator) argument(depth int) string {
	if depth <= 0 {
		return g.oneOf("1", "'text'", "$.x", "$.data.id", "s => s", "state => state.x", "null", "`t`", "/a/.source", "c1")
	}
	one := func() string { return g.argument(depth - 1) }
	operand := func() string { return "(" + one() + ")" }
	switch g.IntN(20) {
	case 0, 1, 2:
		return g.lazy()
	case 3, 4:
		return g.call(depth - 1)
	case 5:
		return "[" + g.some(3, ", ", one) + "]"
	case 6, 7:
		return "{ a: " + one() + ", 'b-c': " + one() + g.sometimes(3, ", ...{ d: "+one()+" }") + g.sometimes(4, ", [`k${1}`]: "+one()) + " }"
	case 8:
		return "`a ${" + operand() + "} $.x ${" + operand() + "}`"
	case 9, 10:
		return "state => " + g.oneOf("("+one()+")", "{ return "+g.oneOf("state.x", "1", "state")+"; }", "({ ...state, w: "+one()+" })")
	case 11:
		return g.oneOf("x => x", "() => 1", "(s, t) => s", "async s => s", "({ data }) => data", "function (s) { return s.x; }", "async (state) => state", "(state) => $.y", g.oneOf("(state) => $.y", "x => $.x", "(state, n) => $.x", "async () => $.x"), "(state) => { const $ = { x: 7 }; return $.x; }", "(s = 1) => s")
	case 12:
		return operand() + g.oneOf(" + ", " - ", " === ", " || ", " ?? ", " && ") + operand()
	case 13:
		return operand() + " ? " + operand() + " : " + operand()
	case 14:
		return g.oneOf("!", "typeof ", "-", "void ") + g.lazy()
	case 15:
		return "(" + one() + ")"
	case 16:
		return "[1, 2].map(" + one() + ")"
	case 17:
		return g.oneOf("Math.max(1, ", "String(", "Object.keys(", "[].concat(", "'a'.concat(", "helper2(") + one() + ")"
	case 18:
		return "new " + g.oneOf("Date(0, ", "Array(3, ") + one() + ")"
	default:
		return g.argument(0)
	}
}

// lazy is lazy state without calls.
func (g generator) lazy() string {
	return g.oneOf("$.x", "$.data.id", "$.data", "$.a.b.c.d", "$['x']", "$.data['id']", "$?.x", "$.data?.id", "$.list[0]", "$.list.length", "$[`x`]", "$['data'].id", "$.list[$.zero]", "$.missing?.y", "$.missing.y")
}

// method is a method of the state called. OpenFn's compiler knows it only if nothing stands between it and `$`.
func (g generator) method(depth int) string {
	return g.oneOf("$.m", "$.f", "$.callMeMaybe", "$['m']") + "(" + g.some(2, ", ", func() string { return g.argument(depth - 1) }) + ")"
}
