package compile

import (
	"strings"

	"github.com/grafana/sobek/ast"
	"github.com/grafana/sobek/parser"
)

const (
	conditionHead = "(function (state, upstreamStepId) { return "
	conditionTail = "\n})"
)

// Condition compiles the JavaScript expression on an edge. It returns the text of a function expression, for a script
// rather than a module, that takes the state and the id of the upstream step and returns the expression's value, of
// which only the truth counts. Nothing is rewritten in it: no lazy state, no imports.
//
// As with OpenFn's runtime the expression is what follows a `return`, so a semicolon after it does no harm. An empty
// condition, which means always, is not for this function. The error is an [*Error] without a name, its position
// being one in the expression.
func Condition(expression string) (function string, err error) {
	return condition(expression, sizeOf(expression))
}

func condition(expression string, s size) (function string, err error) {
	defer contain(&err, "")

	// A line break after `return` would end the statement.
	indent := len(expression) - len(strings.TrimLeft(expression, " \t\r\n"))
	if strings.TrimSpace(expression) == "" {
		return "", errorAt(expression, len(expression), endOfInput)
	}
	if err := s.tooNested(expression); err != nil {
		return "", err
	}
	function = conditionHead + expression[indent:] + conditionTail
	program, err := parser.ParseFile(nil, "", function, 0, parser.WithDisableSourceMaps)
	if err != nil {
		failure := syntaxError(function, err)
		at, _ := offsetAt(function, failure.Position, V8)
		return "", conditionError(expression, at-len(conditionHead)+indent, failure.Message)
	}
	if !isFunction(program) {
		return "", conditionError(expression, indent, "Unexpected token }")
	}
	return function, nil
}

const endOfInput = "Unexpected end of input"

// conditionError is an error at an offset of an expression, or at its end for what only the text put behind it shows.
func conditionError(expression string, at int, message string) *Error {
	if at >= len(expression) {
		return errorAt(expression, len(expression), endOfInput)
	}
	return errorAt(expression, max(at, 0), message)
}

// isFunction reports whether a script is one function expression and nothing else. It is not for a condition such as
// `0 }, function () {`, which closes the function that was put around it.
func isFunction(program *ast.Program) bool {
	if len(program.Body) != 1 {
		return false
	}
	statement, ok := program.Body[0].(*ast.ExpressionStatement)
	if !ok {
		return false
	}
	_, ok = statement.Expression.(*ast.FunctionLiteral)
	return ok
}
