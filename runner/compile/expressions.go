package compile

import (
	"slices"

	"github.com/grafana/sobek/ast"
)

func (w *walker) expressions(list []ast.Expression, p place) {
	for _, e := range list {
		w.expression(e, p)
	}
}

func (w *walker) expression(e ast.Expression, p place) {
	switch e := e.(type) {
	case *ast.Identifier:
		w.use(e.Name.String(), offset(e.Idx), p)
	case *ast.DotExpression:
		w.member(e, e.Left, p)
	case *ast.PrivateDotExpression:
		w.member(e, e.Left, p)
	case *ast.BracketExpression:
		w.member(e, e.Left, p)
		w.aside(e.Member, p)
	case *ast.CallExpression:
		w.call(e, p)
	case *ast.NewExpression:
		w.link(e, e.Callee, p)
		for _, a := range e.ArgumentList {
			w.aside(a, p)
		}
	case *ast.FunctionLiteral:
		if e.Name != nil {
			p.scope = &scope{outer: p.scope}
			w.declare(e.Name.Name.String(), offset(e.Name.Idx), own, p)
		}
		w.function(e, p)
	case *ast.ArrowFunctionLiteral:
		w.arrow(e, p)
	case *ast.ClassLiteral:
		w.class(e, p)
	case *ast.ObjectLiteral:
		if slices.ContainsFunc(e.Value, isSpread) {
			w.spreads = append(w.spreads, offset(e.LeftBrace))
		}
		w.properties(e.Value, p)
	case *ast.ArrayLiteral:
		w.expressions(e.Value, p)
	case *ast.ObjectPattern, *ast.ArrayPattern:
		w.target(e, assigned, p)
	case *ast.AssignExpression:
		w.target(e.Left, assigned, p)
		w.expression(e.Right, p)
	case *ast.BinaryExpression:
		w.expression(e.Left, p)
		w.expression(e.Right, p)
	default:
		w.operator(e, p)
	}
}

// operator visits what is left: operators, templates and what has no parts.
func (w *walker) operator(e ast.Expression, p place) {
	switch e := e.(type) {
	case *ast.AwaitExpression:
		if !p.function {
			w.awaits = append(w.awaits, offset(e.Await))
		}
		w.expression(e.Argument, p)
	case *ast.ConditionalExpression:
		w.expression(e.Test, p)
		w.expression(e.Consequent, p)
		w.expression(e.Alternate, p)
	case *ast.OptionalChain:
		w.link(e, e.Expression, p)
	case *ast.Optional:
		w.link(e, e.Expression, p)
	case *ast.RegExpLiteral:
		w.regexps[offset(e.Idx)] = true
		w.checkRegexp(e)
	case *ast.NumberLiteral, *ast.StringLiteral:
		w.checkLiteral(e)
	case *ast.SequenceExpression:
		w.expressions(e.Sequence, p)
	case *ast.SpreadElement:
		w.expression(e.Expression, p)
	case *ast.TemplateLiteral:
		w.checkTemplate(e)
		w.expression(e.Tag, p)
		w.expressions(e.Expressions, p)
	case *ast.SuperExpression:
		w.checkSuper(e, p)
	case *ast.UnaryExpression:
		w.checkUnary(e)
		w.expression(e.Operand, p)
	case *ast.YieldExpression:
		w.expression(e.Argument, p)
	}
}

// member visits what the property e is taken of.
func (w *walker) member(e, object ast.Expression, p place) {
	of := object
	if o, ok := of.(*ast.Optional); ok {
		of = o.Expression
	}
	if id, ok := of.(*ast.Identifier); ok && id.Name == "$" && !p.constant {
		w.names["$"] = struct{}{}
		w.lazy = append(w.lazy, lazyReference{
			reference: reference{name: "$", offset: offset(id.Idx), scope: p.scope},
			argument:  p.argument,
		})
		w.lazyChain = e
		return
	}
	w.link(e, object, p)
}

// link visits what the chain e goes on from.
func (w *walker) link(e, from ast.Expression, p place) {
	w.expression(from, p)
	if w.lazyChain == from {
		w.lazyChain = e
	}
}

// aside visits a part of a chain that the chain does not go on from.
func (w *walker) aside(e ast.Expression, p place) {
	chain := w.lazyChain
	w.expression(e, p)
	w.lazyChain = chain
}

func (w *walker) call(e *ast.CallExpression, p place) {
	if super, ok := e.Callee.(*ast.SuperExpression); ok && p.super && !p.superCall {
		w.fail(offset(super.Idx), "super() call outside constructor of a subclass")
	}
	if _, ok := e.Callee.(*ast.DynamicImportExpression); ok {
		if module, ok := e.ArgumentList[0].(*ast.StringLiteral); ok {
			w.imported(module.Value.String(), offset(module.Idx), true)
		}
	}
	if !p.nested {
		w.chain(e, p)
	}
	if id, ok := e.Callee.(*ast.Identifier); ok && w.calls != nil {
		w.calls[offset(id.Idx)] = e
	}
	w.link(e, e.Callee, p)
	for i, a := range e.ArgumentList {
		q := p
		// A method of the state is called when the state is there: it takes values, and the call as a whole waits.
		if w.lazyChain != e {
			q.argument = &argument{call: e, index: i, outer: p.argument}
		}
		w.aside(a, q)
	}
}

func (w *walker) arrow(f *ast.ArrowFunctionLiteral, p place) {
	// Lazy state may stand in an arrow's expression: the argument it is part of becomes, or is, a function of the state.
	within := p.argument
	p = p.inside(true)
	p.argument = within
	w.parameters(f.ParameterList, p)
	switch body := f.Body.(type) {
	case *ast.ExpressionBody:
		w.expression(body.Expression, p)
	case *ast.BlockStatement:
		p.argument = nil
		w.statements(body.List, p)
	}
}

func (w *walker) properties(list []ast.Property, p place) {
	for _, property := range list {
		switch property := property.(type) {
		case *ast.PropertyShort:
			w.use(property.Name.Name.String(), offset(property.Name.Idx), p)
			if property.Initializer != nil {
				w.failShorthand(property)
			}
		case *ast.PropertyKeyed:
			w.key(property.Key, property.Computed, p)
			if f, ok := property.Value.(*ast.FunctionLiteral); ok && property.Kind != ast.PropertyKindValue {
				q := p
				q.super, q.superCall = true, false
				w.method(f, q)
				continue
			}
			w.expression(property.Value, p)
		case *ast.SpreadElement:
			w.expression(property.Expression, p)
		}
	}
}
