package compile

import (
	"github.com/grafana/sobek/ast"
)

func (w *walker) statements(list []ast.Statement, p place) {
	for _, s := range list {
		w.statement(s, p)
	}
}

func (w *walker) statement(s ast.Statement, p place) {
	switch s := s.(type) {
	case *ast.ExpressionStatement:
		w.expression(s.Expression, p)
	case *ast.VariableStatement:
		w.bindings(s.List, variable, p)
	case *ast.LexicalDeclaration:
		w.checkConst(s)
		w.bindings(s.List, lexical, p)
	case *ast.FunctionDeclaration:
		if s.Function.Name != nil {
			as := lexical
			if p.scope.function && p.scope.outer != nil {
				as = variable
			}
			w.declare(s.Function.Name.Name.String(), offset(s.Function.Name.Idx), as, p)
		}
		w.function(s.Function, p)
	case *ast.ClassDeclaration:
		if s.Class.Name != nil {
			w.declare(s.Class.Name.Name.String(), offset(s.Class.Name.Idx), lexical, p)
		}
		w.class(s.Class, p)
	case *ast.BlockStatement:
		w.statements(s.List, p.inside(false))
	case *ast.ReturnStatement:
		w.expression(s.Argument, p)
	case *ast.ThrowStatement:
		w.expression(s.Argument, p)
	case *ast.IfStatement:
		w.expression(s.Test, p)
		w.substatement(s.Consequent, p)
		w.substatement(s.Alternate, p)
	case *ast.LabelledStatement:
		w.substatement(s.Statement, p)
	case *ast.WithStatement:
		w.fail(offset(s.With), "'with' in strict mode")
	case *ast.SwitchStatement:
		w.switchStatement(s, p)
	case *ast.TryStatement:
		w.tryStatement(s, p)
	default:
		w.loop(s, p)
	}
}

// substatement visits a statement that is a part of another one, which a function cannot be.
func (w *walker) substatement(s ast.Statement, p place) {
	if f, ok := s.(*ast.FunctionDeclaration); ok {
		w.fail(offset(f.Function.Function), unexpectedToken)
	}
	w.statement(s, p)
}

func (w *walker) loop(s ast.Statement, p place) {
	switch s := s.(type) {
	case *ast.WhileStatement:
		w.expression(s.Test, p)
		w.substatement(s.Body, p)
	case *ast.DoWhileStatement:
		w.substatement(s.Body, p)
		w.expression(s.Test, p)
	case *ast.ForStatement:
		w.noAwait(s)
		p.scope = &scope{outer: p.scope}
		switch i := s.Initializer.(type) {
		case *ast.ForLoopInitializerExpression:
			w.expression(i.Expression, p)
		case *ast.ForLoopInitializerVarDeclList:
			w.bindings(i.List, variable, p)
		case *ast.ForLoopInitializerLexicalDecl:
			w.checkConst(&i.LexicalDeclaration)
			w.bindings(i.LexicalDeclaration.List, lexical, p)
		}
		w.expression(s.Test, p)
		w.expression(s.Update, p)
		w.substatement(s.Body, p)
	case *ast.ForInStatement:
		w.noAwait(s)
		w.forEach(s.Into, s.Source, s.Body, p)
	case *ast.ForOfStatement:
		w.forEach(s.Into, s.Source, s.Body, p)
	}
}

func (w *walker) forEach(into ast.ForInto, source ast.Expression, body ast.Statement, p place) {
	p.scope = &scope{outer: p.scope}
	switch into := into.(type) {
	case *ast.ForIntoVar:
		w.binding(into.Binding, variable, p)
	case *ast.ForDeclaration:
		w.target(into.Target, lexical, p)
	case *ast.ForIntoExpression:
		w.target(into.Expression, assigned, p)
	}
	w.expression(source, p)
	w.substatement(body, p)
}

func (w *walker) switchStatement(s *ast.SwitchStatement, p place) {
	w.expression(s.Discriminant, p)
	p = p.inside(false)
	for _, c := range s.Body {
		w.expression(c.Test, p)
		w.statements(c.Consequent, p)
	}
}

func (w *walker) tryStatement(s *ast.TryStatement, p place) {
	w.statement(s.Body, p)
	if s.Catch != nil {
		p := p.inside(false)
		if s.Catch.Parameter != nil {
			as := lexical
			if _, ok := s.Catch.Parameter.(*ast.Identifier); ok {
				as = caught
			}
			w.target(s.Catch.Parameter, as, p)
		}
		w.statements(s.Catch.Body.List, p)
	}
	if s.Finally != nil {
		w.statement(s.Finally, p)
	}
}

// noAwait refuses `for await` on a loop that is no for-of.
func (w *walker) noAwait(loop ast.Statement) {
	if at, ok := w.forAwait[offset(loop.Idx0())]; ok {
		w.fail(at, unexpectedToken)
	}
}

func (w *walker) bindings(list []*ast.Binding, as declaration, p place) {
	for _, b := range list {
		w.binding(b, as, p)
	}
}

func (w *walker) binding(b *ast.Binding, as declaration, p place) {
	w.target(b.Target, as, p)
	w.expression(b.Initializer, p)
}

// target visits a pattern whose names are declared, or assigned to.
func (w *walker) target(e ast.Expression, as declaration, p place) {
	switch e := e.(type) {
	case *ast.Identifier:
		if as != assigned {
			w.declare(e.Name.String(), offset(e.Idx), as, p)
			return
		}
		w.checkAssigned(e)
		w.use(e.Name.String(), offset(e.Idx), p)
	case *ast.ObjectPattern:
		for _, property := range e.Properties {
			switch property := property.(type) {
			case *ast.PropertyShort:
				w.target(&property.Name, as, p)
				w.expression(property.Initializer, p)
			case *ast.PropertyKeyed:
				w.key(property.Key, property.Computed, p)
				w.target(property.Value, as, p)
			}
		}
		w.target(e.Rest, as, p)
	case *ast.ArrayPattern:
		for _, element := range e.Elements {
			w.target(element, as, p)
		}
		w.target(e.Rest, as, p)
	case *ast.AssignExpression: // a default
		w.target(e.Left, as, p)
		w.expression(e.Right, p)
	default:
		w.expression(e, p)
	}
}

// function visits a function, with its parameters and its body in one scope.
func (w *walker) function(f *ast.FunctionLiteral, p place) {
	p.super, p.superCall = false, false
	w.method(f, p)
}

// method visits a function in which `super` is what it is around it.
func (w *walker) method(f *ast.FunctionLiteral, p place) {
	p = p.inside(true)
	p.scope.declare("arguments", own)
	w.parameters(f.ParameterList, p)
	w.statements(f.Body.List, p)
}

func (w *walker) parameters(list *ast.ParameterList, p place) {
	w.bindings(list.List, parameter, p)
	w.target(list.Rest, parameter, p)
}

func (w *walker) class(c *ast.ClassLiteral, p place) {
	p = p.inside(false)
	if c.Name != nil {
		w.declare(c.Name.Name.String(), offset(c.Name.Idx), own, p)
	}
	w.expression(c.SuperClass, p)
	inner := p
	inner.super, inner.superCall = true, false
	constructed := false
	for _, element := range c.Body {
		switch element := element.(type) {
		case *ast.MethodDefinition:
			w.key(element.Key, element.Computed, p)
			q := inner
			constructs := isConstructor(element)
			if constructs && constructed {
				w.fail(offset(element.Idx), "Duplicate constructor in the same class")
			}
			constructed = constructed || constructs
			q.superCall = c.SuperClass != nil && constructs
			w.method(element.Body, q)
		case *ast.FieldDefinition:
			w.key(element.Key, element.Computed, p)
			w.expression(element.Initializer, inner.inside(true))
		case *ast.ClassStaticBlock:
			w.statements(element.Block.List, inner.inside(true))
		}
	}
}

func isConstructor(m *ast.MethodDefinition) bool {
	key, ok := m.Key.(*ast.StringLiteral)
	return ok && key.Value == "constructor" && !m.Static && !m.Computed
}
