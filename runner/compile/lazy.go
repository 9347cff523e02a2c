package compile

import (
	"context"
	"fmt"
	"strings"

	"github.com/grafana/sobek/ast"
)

// Step 1: lazy state.

// A lazyReference is the `$` of a member chain.
type lazyReference struct {
	reference
	argument *argument
}

const lazyStateError = "Lazy State Error: "

// lazyState makes `$` the state, and each argument with one in it a function of the state.
func (b *builder) lazyState() error {
	commas := map[*ast.CallExpression][]int{}
	for _, ref := range b.lazy {
		if b.ctx.Err() != nil {
			return context.Cause(b.ctx)
		}
		if ref.declared() {
			continue
		}
		if ref.argument == nil {
			return errorAt(b.body, ref.offset, lazyStateError+"Must be inside an operation")
		}
		if !ref.argument.lazy {
			if err := b.makeLazy(ref, commas); err != nil {
				return err
			}
			ref.argument.lazy = true
		}
		dollar := b.tokens.at(b.tokens.starting(ref.offset))
		b.edits.replace(dollar.start, dollar.end, "state")
	}
	return nil
}

// makeLazy sees to it that the argument around a reference is a function of the state.
func (b *builder) makeLazy(ref lazyReference, commas map[*ast.CallExpression][]int) error {
	call, index := ref.argument.call, ref.argument.index
	switch e := call.ArgumentList[index].(type) {
	case *ast.ArrowFunctionLiteral:
		if problem := b.takesState(e); problem != "" {
			return errorAt(b.body, offset(e.Start), lazyStateError+problem)
		}
		return nil
	case *ast.SpreadElement:
		return errorAt(b.body, ref.offset, lazyStateError+"cannot be spread over arguments")
	}
	separators, ok := commas[call]
	if !ok {
		separators = b.separators(offset(call.LeftParenthesis))
		commas[call] = separators
	}
	first, last := b.tokens.at(separators[index]+1), b.tokens.at(separators[index+1]-1)
	if first.kind == '{' {
		b.edits.wrap(first.start, last.end, "state => (", ")")
	} else {
		b.edits.wrap(first.start, last.end, "state => ", "")
	}
	return nil
}

// takesState says why an arrow function is no function of the state, or "".
func (b *builder) takesState(f *ast.ArrowFunctionLiteral) string {
	parameters := f.ParameterList
	switch {
	case len(parameters.List) == 1 && parameters.Rest == nil:
	case len(parameters.List) == 0 && parameters.Rest != nil:
		return `a rest parameter cannot be "state"`
	default:
		return "parent has wrong arity"
	}
	parameter := parameters.List[0]
	if id, ok := parameter.Target.(*ast.Identifier); ok {
		if id.Name == "state" {
			return ""
		}
		return fmt.Sprintf(`parameter "%s" should be called "state"`, id.Name)
	}
	from := b.tokens.starting(offset(parameter.Target.Idx0()))
	to := b.tokens.at(from).match
	pattern := strings.Join(strings.Fields(b.body[b.tokens.at(from).start:b.tokens.at(to).end]), " ")
	return fmt.Sprintf(`parameter "%s" should be called "state"`, pattern)
}

// separators are the tokens between which the arguments of a call stand, or the properties of an object: the brackets, of which the first
// is at an offset, and commas.
func (b *builder) separators(bracket int) []int {
	open := b.tokens.starting(bracket)
	separators := []int{open}
	end := b.tokens.at(open).match
	for i := open + 1; i < end; i++ {
		switch t := b.tokens.at(i); {
		case t.kind == ',':
			separators = append(separators, i)
		case t.match > i:
			i = t.match
		}
	}
	return append(separators, end)
}
