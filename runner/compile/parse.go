package compile

import (
	"context"
	"errors"
	"strings"

	"github.com/grafana/sobek/ast"
	"github.com/grafana/sobek/parser"
)

// A syntaxTree is a body that parses as a module.
type syntaxTree struct {
	*ast.Program
	// forAwait holds the offsets of the `await` of every `for await`, which the tree shows as plain loops.
	forAwait map[int]bool
}

// maxForAwait bounds how often one body is parsed.
const maxForAwait = 100

// parse parses the body of a job.
func parse(ctx context.Context, body string) (*syntaxTree, error) {
	if strings.HasPrefix(body, "#!") {
		// The parser would take it for a comment, but on a first line that begins with our imports it is none.
		return nil, errorAt(body, 0, unexpectedToken)
	}
	if offset := tooNested(body); offset >= 0 {
		return nil, errorAt(body, offset, "Nested too deeply")
	}
	tree := &syntaxTree{}
	source := body
	for ctx.Err() == nil {
		program, err := parser.ParseFile(nil, "", source, 0, parser.IsModule, parser.WithDisableSourceMaps)
		if err == nil {
			tree.Program = program
			return tree, nil
		}
		failure := syntaxError(source, err)
		offset, ok := offsetAt(source, failure.Position, V8)
		if !ok || !isForAwait(source, offset) || len(tree.forAwait) == maxForAwait {
			return nil, wording(failure)
		}
		// The parser knows no `for await`, but says itself where one stands: there it reads spaces instead.
		if tree.forAwait == nil {
			tree.forAwait = map[int]bool{}
		}
		tree.forAwait[offset] = true
		source = source[:offset] + strings.Repeat(" ", len("await")) + source[offset+len("await"):]
	}
	return nil, context.Cause(ctx)
}

// isForAwait reports whether the parser stopped at the `await` of a `for await`.
func isForAwait(source string, offset int) bool {
	return strings.HasPrefix(source[offset:], "await") &&
		strings.HasSuffix(strings.TrimRight(source[:offset], " \t\r\n"), "for")
}

// syntaxError makes an error of the parser's first one.
func syntaxError(source string, err error) *Error {
	list, ok := errors.AsType[parser.ErrorList](err)
	if !ok || len(list) == 0 {
		return &Error{Message: strings.ReplaceAll(err.Error(), "\n", " ")}
	}
	first := list[0]
	// The parser counts columns in bytes.
	start, ok := offsetAt(source, Position{Line: first.Position.Line, Column: 1}, V8)
	if !ok {
		return &Error{Message: first.Message}
	}
	return errorAt(source, min(start+first.Position.Column-1, len(source)), first.Message)
}

const unexpectedToken = "Unexpected token"

// wording says what OpenFn's own compiler says of a token that cannot stand where it does; the parser has a message
// for each kind of token.
func wording(e *Error) *Error {
	kind, unexpected := strings.CutPrefix(e.Message, "Unexpected ")
	switch {
	case !unexpected:
	case strings.HasPrefix(kind, "token"), kind == "identifier", kind == "number", kind == "string",
		kind == "reserved word", kind == "end of input":
		e.Message = unexpectedToken
	}
	return e
}
