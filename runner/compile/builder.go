package compile

import (
	"context"
	"encoding/json"

	"github.com/grafana/sobek/ast"
)

// A builder makes the edits that turn a body into a module, step by step.
type builder struct {
	*analysis
	ctx     context.Context // of the compile, for the loops that may take long
	body    string
	cursor  cursor
	program *syntaxTree
	tokens  tokens
	edits   edits
	// prologue is what goes in front of the first line.
	prologue []fragment
	// added are the imports in it.
	added []Import
}

// declare puts a declaration into the prologue.
func (b *builder) declare(statement string) {
	b.prologue = append(b.prologue, fragment{text: statement + "; ", anchor: nowhere})
}

// declareImport puts `clause from 'module'` into the prologue.
func (b *builder) declareImport(clause, module string) {
	quoted, _ := json.Marshal(module) // a string always has JSON, and JSON strings are JavaScript's
	b.declare(clause + " from " + string(quoted))
}

// unique returns name, or a variant of it that the body does not use, and takes it.
func (b *builder) unique(name string) string {
	name = b.unused(name)
	b.names[name] = struct{}{}
	return name
}

// unused returns name, or a variant of it that the body does not use.
func (b *builder) unused(name string) string {
	for {
		if _, taken := b.names[name]; !taken {
			return name
		}
		name = "_" + name
	}
}

// wrapSpreads gives what is spread in an object to the function Object, whatever the body calls so.
func (b *builder) wrapSpreads() {
	if len(b.spreads) == 0 {
		return
	}
	object := b.unique("_object")
	b.declare("const " + object + " = ({}).constructor")
	for _, brace := range b.spreads {
		separators := b.separators(brace)
		for i, separator := range separators[:len(separators)-1] {
			first, last := separator+1, separators[i+1]-1
			if b.tokens.kind(first) == '.' { // the first of three
				b.edits.wrap(b.tokens.at(first+3).start, b.tokens.at(last).end, object+"(", ")")
			}
		}
	}
}

func isSpread(p ast.Property) bool {
	_, is := p.(*ast.SpreadElement)
	return is
}

// callRange returns the first and the last token of a call, without parentheses around all of it.
func (b *builder) callRange(call *ast.CallExpression) (first, last int) {
	last = b.tokens.starting(offset(call.RightParenthesis))
	first = b.leftmost(call)
	// `(a, b)(c)` starts with a parenthesis that the tree does not show.
	for b.tokens.kind(first-1) == '(' && b.tokens.at(first-1).match < last {
		first--
	}
	return first, last
}

// leftmost is the first token of an expression but for parentheses.
func (b *builder) leftmost(e ast.Expression) int {
	for {
		switch left := e.(type) {
		case *ast.CallExpression:
			if _, ok := left.Callee.(*ast.DynamicImportExpression); ok {
				return b.tokens.starting(offset(left.LeftParenthesis)) - 1
			}
			e = left.Callee
		case *ast.DotExpression:
			e = left.Left
		case *ast.PrivateDotExpression:
			e = left.Left
		case *ast.BracketExpression:
			e = left.Left
		case *ast.OptionalChain:
			e = left.Expression
		case *ast.Optional:
			e = left.Expression
		case *ast.SequenceExpression:
			e = left.Sequence[0]
		case *ast.AssignExpression:
			e = left.Left
		case *ast.BinaryExpression:
			e = left.Left
		case *ast.ConditionalExpression:
			e = left.Test
		case *ast.TemplateLiteral:
			if left.Tag == nil {
				return b.tokens.starting(offset(left.OpenQuote))
			}
			e = left.Tag
		case *ast.MetaProperty:
			return b.tokens.starting(offset(left.Meta.Idx))
		case *ast.UnaryExpression:
			if !left.Postfix {
				return b.tokens.starting(offset(left.Idx))
			}
			e = left.Operand
		default:
			return b.tokens.starting(offset(e.Idx0()))
		}
	}
}
