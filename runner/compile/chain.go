package compile

import (
	"github.com/grafana/sobek/ast"
)

// Step 2: promise chains.

// A chain is `operation.then(…).catch(…)…` at the top scope.
type chain struct {
	// calls are the calls of then and catch, the last one of the source first, and then the operation.
	calls    []*ast.CallExpression
	argument *argument // the argument that the chain is part of
}

func (c chain) whole() *ast.CallExpression     { return c.calls[0] }
func (c chain) operation() *ast.CallExpression { return c.calls[len(c.calls)-1] }

// chain remembers a call that ends a promise chain.
func (w *walker) chain(call *ast.CallExpression, p place) {
	if _, known := w.chainOf[call]; known || chained(call) == "" {
		return
	}
	c := chain{argument: p.argument}
	for call != nil {
		c.calls = append(c.calls, call)
		if chained(call) == "" {
			break
		}
		call, _ = call.Callee.(*ast.DotExpression).Left.(*ast.CallExpression)
	}
	if call == nil {
		return // of a promise that no call made
	}
	if _, ok := call.Callee.(*ast.DynamicImportExpression); ok {
		return
	}
	for _, link := range c.calls {
		w.chainOf[link] = len(w.chains)
	}
	w.chains = append(w.chains, c)
}

// chained returns the name of the method that a call of then or catch calls, "" if it calls none of the two.
func chained(call *ast.CallExpression) string {
	if callee, ok := call.Callee.(*ast.DotExpression); ok {
		if name := callee.Identifier.Name; name == "then" || name == "catch" {
			return string(name)
		}
	}
	return ""
}

// promiseChains hands the chains to defer, which waits for the operation to be called.
func (b *builder) promiseChains() {
	var names chainNames
	for _, c := range b.chains {
		if c.becomesLazy() {
			continue
		}
		if names.deferred == "" {
			names.deferred, names.promise = b.unique("_defer"), b.unique("p")
			b.declareImport("import { defer as "+names.deferred+" }", runtimeModule)
			b.added = append(b.added, Import{Module: runtimeModule})
		}
		b.promiseChain(c, &names)
	}
}

const runtimeModule = "@openfn/runtime"

// chainNames are names that stand for nothing else in the body.
type chainNames struct{ deferred, promise, recovered string }

// becomesLazy reports whether step 1 put a function around the chain, which then is at the top scope no more.
func (c chain) becomesLazy() bool {
	for a := c.argument; a != nil; a = a.outer {
		if a.lazy {
			return true
		}
	}
	return false
}

func (b *builder) promiseChain(c chain, names *chainNames) {
	for _, link := range c.calls[1:] {
		b.unparenthesise(link)
	}
	first, last := b.callRange(c.operation())
	start, end := b.tokens.at(first).start, offset(c.whole().RightParenthesis)+1
	then := ", " + names.promise + " => " + names.promise

	direct := c.calls[len(c.calls)-2]
	if chained(direct) != "catch" {
		b.edits.wrap(start, end, names.deferred+"(", ")")
		b.edits.insert(b.tokens.at(last).end, then, start)
		return
	}

	open := b.tokens.starting(offset(direct.LeftParenthesis))
	dot := b.tokens.at(open - 2)
	b.remove(open - 1) // the name
	b.remove(open)
	if direct == c.whole() {
		b.edits.wrap(start, end, names.deferred+"(", "")
		b.edits.replace(dot.start, dot.end, ", undefined, ")
		return
	}
	// The catch comes before the rest of the chain in the text, and after it among the arguments of defer.
	if names.recovered == "" {
		names.recovered = b.unique("_recover")
		b.declare("const " + names.recovered + " = (operation, caught, chain) => " + names.deferred + "(operation, chain, ...caught)")
	}
	b.edits.wrap(start, end, names.recovered+"(", ")")
	b.edits.replace(dot.start, dot.end, ", [")
	closing := offset(direct.RightParenthesis)
	b.edits.replace(closing, closing+1, "]"+then)
}

// unparenthesise removes the parentheses around a link of a chain, where they change nothing.
func (b *builder) unparenthesise(link *ast.CallExpression) {
	for i := b.tokens.starting(offset(link.RightParenthesis)) + 1; b.tokens.kind(i) == ')'; i++ {
		b.remove(i)
		b.remove(b.tokens.at(i).match)
	}
}

// remove takes a token out of the text.
func (b *builder) remove(i int) {
	t := b.tokens.at(i)
	b.edits.replace(t.start, t.end, "")
}
