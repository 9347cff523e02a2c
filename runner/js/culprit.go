package js

import (
	"reflect"
	"strings"

	"github.com/grafana/sobek/ast"
	"github.com/grafana/sobek/file"
	"github.com/grafana/sobek/parser"
	"github.com/grafana/sobek/token"

	"github.com/phxworker/phxworker/runner/compile"
)

// A culprit is the part of a job that an error of the language is about. V8 names it, where QuickJS says no more than
// "not a function"; so it is looked up in the code, at the place that the error tells.
type culprit struct {
	tree *ast.Program
	at   file.Idx
}

// maxNamed bounds the code that is read once more for a name: what that takes is not counted by [compile.Compiler].
const maxNamed = 32 << 10

// culpritAt returns what is at a frame of the job, nil if that cannot be told.
func (s *step) culpritAt(f frame) *culprit {
	body := s.node.job.Body
	offset, ok := s.node.module.OriginalOffset(f.line, f.column, compile.QuickJS)
	if f.file != jobModule || !ok || len(body) > maxNamed {
		return nil
	}
	tree, err := parser.ParseFile(nil, "", body, 0, parser.IsModule, parser.WithDisableSourceMaps)
	if err != nil { // it compiled, and has something in it that the compile step hides from the parser
		return nil
	}
	return &culprit{tree: tree, at: file.Idx(offset + 1)}
}

// called is what is called at the place, and whether as a constructor; "" if there is no call.
func (c *culprit) called() (name string, constructor bool) {
	c.each(func(n ast.Node) {
		switch n := n.(type) {
		case *ast.CallExpression:
			if n.LeftParenthesis == c.at {
				name, constructor = printed(n.Callee), false
			}
		case *ast.NewExpression:
			if n.LeftParenthesis == c.at || n.LeftParenthesis == 0 && n.Idx0() <= c.at && c.at <= n.Idx1() {
				name, constructor = printed(n.Callee), true
			}
		case *ast.ReturnStatement: // the place of a call that ends a function
			if call, ok := n.Argument.(*ast.CallExpression); ok && n.Return == c.at {
				name, constructor = printed(call.Callee), false
			}
		}
	})
	return name, constructor
}

// iterated is what is gone through at the place, "" if nothing is.
func (c *culprit) iterated() string {
	name := ""
	c.each(func(n ast.Node) {
		var source ast.Expression
		switch n := n.(type) {
		case *ast.ForOfStatement:
			source = n.Source
		case *ast.SpreadElement:
			source = n.Expression
		default:
			return
		}
		if source.Idx0() > c.at || c.at > source.Idx1() {
			return
		}
		name = printed(source) + " is not iterable"
		if call, ok := source.(*ast.CallExpression); ok {
			name = printed(call.Callee) + " is not a function or its return value is not iterable"
		}
	})
	return name
}

// assigned is what is written to at the place, nil if nothing is. Of several around each other it is the innermost.
func (c *culprit) assigned() (target ast.Expression) {
	c.each(func(n ast.Node) {
		switch n := n.(type) {
		case *ast.AssignExpression:
			if n.Idx0() <= c.at && c.at <= n.Idx1() {
				target = n.Left
			}
		case *ast.UnaryExpression:
			if (n.Operator == token.INCREMENT || n.Operator == token.DECREMENT) && n.Idx0() <= c.at && c.at <= n.Idx1() {
				target = n.Operand
			}
		}
	})
	return target
}

// isConstant reports whether what cannot be written to at the place is a constant of that name. Where no assignment is found there,
// it is if the job has such a constant.
func (c *culprit) isConstant(name string) bool {
	switch c.assigned().(type) {
	case *ast.Identifier:
		return true
	case *ast.DotExpression, *ast.BracketExpression:
		return false
	}
	constant := false
	c.each(func(n ast.Node) {
		if declared, ok := n.(*ast.LexicalDeclaration); ok && declared.Token == token.CONST {
			for _, binding := range declared.List {
				target, ok := binding.Target.(*ast.Identifier)
				constant = constant || ok && target.Name.String() == name
			}
		}
	})
	return constant
}

// property is the name of the member that is written to or deleted at the place, "" if there is none.
func (c *culprit) property() string {
	if member := c.member(); member != nil {
		return member.Identifier.Name.String()
	}
	return ""
}

// object is what that is a member of, in V8's words: the console is of another context than jobs are.
func (c *culprit) object() string {
	if member := c.member(); member != nil {
		if name, ok := member.Left.(*ast.Identifier); ok && name.Name == "console" {
			return "[object Object]"
		}
	}
	return "#<Object>"
}

func (c *culprit) member() *ast.DotExpression {
	target := c.assigned()
	c.each(func(n ast.Node) {
		if u, ok := n.(*ast.UnaryExpression); ok && u.Operator == token.DELETE && n.Idx0() <= c.at && c.at <= n.Idx1() {
			target = u.Operand
		}
	})
	member, _ := target.(*ast.DotExpression)
	return member
}

// assignedTo is the member that the innermost function at the place was assigned to when it was made, "" for none: V8 has its
// name in stacks.
func (c *culprit) assignedTo() (name string) {
	within := func(n ast.Node) bool { return n.Idx0() <= c.at && c.at <= n.Idx1() }
	made := make(map[ast.Node]string)
	c.each(func(n ast.Node) {
		switch n := n.(type) {
		case *ast.AssignExpression:
			switch n.Left.(type) {
			case *ast.DotExpression, *ast.BracketExpression:
				if n.Operator == token.ASSIGN {
					made[n.Right] = printed(n.Left)
				}
			}
		case *ast.FunctionLiteral:
			if within(n) {
				name = made[n]
			}
		case *ast.ArrowFunctionLiteral:
			if within(n) {
				name = made[n]
			}
		}
	})
	return name
}

// key is the literal between brackets at the place, "" if there is none.
func (c *culprit) key() (key string) {
	c.each(func(n ast.Node) {
		if b, ok := n.(*ast.BracketExpression); ok && b.LeftBracket <= c.at && c.at <= b.RightBracket {
			switch member := b.Member.(type) {
			case *ast.NumberLiteral:
				key = member.Literal
			case *ast.StringLiteral:
				key = member.Value.String()
			default:
				key = ""
			}
		}
	})
	return key
}

// each calls do with each part of the code, the outer ones first.
func (c *culprit) each(do func(ast.Node)) { nodesIn(reflect.ValueOf(c.tree.Body), do) }

var astPackage = reflect.TypeFor[ast.Program]().PkgPath()

func nodesIn(v reflect.Value, do func(ast.Node)) {
	switch v.Kind() {
	case reflect.Interface:
		nodesIn(v.Elem(), do)
	case reflect.Pointer:
		if v.IsNil() || v.Type().Elem().PkgPath() != astPackage {
			return
		}
		if node, ok := reflect.TypeAssert[ast.Node](v); ok {
			do(node)
		}
		nodesIn(v.Elem(), do)
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				nodesIn(v.Field(i), do)
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			nodesIn(v.Index(i), do)
		}
	}
}

const nameless = "(intermediate value)"

// printed is an expression as V8 writes it into messages.
func printed(e ast.Expression) string {
	switch e := e.(type) {
	case *ast.Identifier:
		return e.Name.String()
	case *ast.ThisExpression:
		return "this"
	case *ast.DotExpression:
		return printedLeft(e.Left) + "." + e.Identifier.Name.String()
	case *ast.BracketExpression:
		if key, ok := e.Member.(*ast.StringLiteral); ok {
			return printedLeft(e.Left) + "." + key.Value.String()
		}
		left := printedLeft(e.Left)
		if strings.HasSuffix(left, "?") {
			left += "."
		}
		return left + "[" + printed(e.Member) + "]"
	case *ast.CallExpression:
		return printed(e.Callee) + "(...)"
	case *ast.UnaryExpression:
		return printedUnary(e)
	case *ast.BinaryExpression:
		return "(" + printed(e.Left) + " " + e.Operator.String() + " " + printed(e.Right) + ")"
	case *ast.OptionalChain:
		return printed(e.Expression)
	case *ast.Optional:
		return printed(e.Expression)
	case *ast.AwaitExpression:
		return printed(e.Argument)
	case *ast.StringLiteral:
		return `"` + e.Value.String() + `"`
	case *ast.NumberLiteral:
		return e.Literal
	case *ast.BooleanLiteral:
		return e.Literal
	case *ast.NullLiteral:
		return e.Literal
	case *ast.ArrayLiteral:
		items := make([]string, len(e.Value))
		for i, item := range e.Value {
			items[i] = printed(item)
		}
		return "[" + strings.Join(items, ",") + "]"
	}
	return nameless
}

func printedUnary(e *ast.UnaryExpression) string {
	switch e.Operator {
	case token.INCREMENT, token.DECREMENT:
		if e.Postfix {
			return "(" + printed(e.Operand) + e.Operator.String() + ")"
		}
	case token.TYPEOF, token.VOID, token.DELETE:
		return "(" + e.Operator.String() + " " + printed(e.Operand) + ")"
	}
	return "(" + e.Operator.String() + printed(e.Operand) + ")"
}

// printedLeft is what a member is taken of.
func printedLeft(e ast.Expression) string {
	if optional, ok := e.(*ast.Optional); ok {
		return printed(optional.Expression) + "?"
	}
	return printed(e)
}
