package compile

import (
	"context"
	"errors"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/grafana/sobek/ast"
	"github.com/grafana/sobek/parser"
)

// A syntaxTree is a body that parses as a module.
type syntaxTree struct {
	*ast.Program
	// forAwait has the offset of the `await` of every `for await`, which the tree shows as plain loops, by that of the `for`.
	forAwait map[int]int
}

// maxForAwait bounds how often one body is parsed.
const maxForAwait = 100

// parse parses the body of a job, which has this size.
func parse(ctx context.Context, body string, s size) (*syntaxTree, error) {
	if strings.HasPrefix(body, "#!") {
		// The parser would take it for a comment, but on a first line that begins with our imports it is none.
		return nil, errorAt(body, 0, unexpectedToken)
	}
	if err := s.tooNested(body); err != nil {
		return nil, err
	}
	tree := &syntaxTree{forAwait: map[int]int{}}
	source := body
	for ctx.Err() == nil {
		program, err := parser.ParseFile(nil, "", source, 0, parser.IsModule, parser.WithDisableSourceMaps)
		if err == nil {
			tree.Program = program
			return tree, nil
		}
		failure := syntaxError(source, err)
		offset, _ := offsetAt(source, failure.Position, V8)
		loop := forBefore(source, offset)
		if loop < 0 || len(tree.forAwait) == maxForAwait {
			return nil, wording(source, offset, failure)
		}
		// The parser knows no `for await`, but says itself where one stands: there it reads spaces instead.
		tree.forAwait[loop] = offset
		source = source[:offset] + strings.Repeat(" ", len("await")) + source[offset+len("await"):]
	}
	return nil, context.Cause(ctx)
}

// forBefore returns the offset of the `for` before the `await` at which the parser stopped, -1 if it stopped elsewhere.
func forBefore(source string, offset int) int {
	before, ok := strings.CutSuffix(strings.TrimRight(source[:offset], " \t\r\n"), "for")
	if !ok || !strings.HasPrefix(source[offset:], "await") {
		return -1
	}
	return len(before)
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
	offset := min(start+first.Position.Column-1, len(source))
	// Of a token that cannot begin a member of an object, the parser tells the place of the one behind.
	if tok, ok := strings.CutPrefix(first.Message, unexpectedToken+" "); ok && !strings.HasPrefix(source[offset:], tok) {
		if before, ok := strings.CutSuffix(strings.TrimSpace(source[:offset]), tok); ok {
			offset = len(before)
		}
	}
	return errorAt(source, offset, first.Message)
}

const unexpectedToken = "Unexpected token"

// wordings are what OpenFn's own compiler says of what the parser has other words for.
var wordings = map[string]string{
	"import only allowed in global scope": "'import' and 'export' may only appear at the top level",
	"export only allowed in global scope": "'import' and 'export' may only appear at the top level",
	"Illegal return statement":            "'return' outside of function",
	"Illegal break statement":             "Unsyntactic break",
	"Illegal continue statement":          "Unsyntactic continue",
	"Missing catch or finally after try":  "Missing catch or finally clause",
	"Already saw a default in switch":     "Multiple default clauses",

	"Invalid left-hand side in assignment":    "Assigning to rvalue",
	"Invalid destructuring assignment target": "Assigning to rvalue",
	"Invalid destructuring binding target":    "Assigning to rvalue",

	"Lexical declaration cannot appear in a single-statement context": unexpectedToken,
}

// wording says in the words of OpenFn's own compiler why the parser stopped at an offset. For tokens that cannot stand
// where they do the parser has a message for each kind of token.
func wording(source string, offset int, e *Error) *Error {
	if words, ok := wordings[e.Message]; ok {
		e.Message = words
		return e
	}
	kind, unexpected := strings.CutPrefix(e.Message, "Unexpected ")
	switch {
	case !unexpected:
	case strings.HasPrefix(kind, "token"), kind == "identifier", kind == "number", kind == "string",
		kind == "reserved word", kind == "end of input":
		return unexpectedAt(source, offset)
	}
	return e
}

// unexpectedAt says what cannot stand at an offset, or what before it makes it so.
func unexpectedAt(source string, offset int) *Error {
	rest := source[offset:]
	before := strings.TrimRight(source[:offset], " \t\r\n")
	if rest != "" && (isWordByte(rest[0]) || strings.IndexByte("'\"`{[!", rest[0]) >= 0) {
		// What begins an expression is only refused behind these where they are names, which they must not be.
		for keyword, problem := range map[string]string{
			"await": "Cannot use keyword 'await' outside an async function",
			"yield": "The keyword 'yield' is reserved",
		} {
			if left, ok := strings.CutSuffix(before, keyword); ok && (left == "" || !isWordByte(left[len(left)-1])) {
				return errorAt(source, len(left), problem)
			}
		}
	}
	r, size := utf8.DecodeRuneInString(rest)
	switch {
	case (r == '\'' || r == '"') && stringEnd(source, offset) == 0:
		return errorAt(source, offset, "Unterminated string constant")
	case r == '@', size > 1 && !unicode.IsLetter(r) && !unicode.IsSpace(r):
		return errorAt(source, offset, "Unexpected character '"+string(r)+"'")
	}
	return errorAt(source, offset, unexpectedToken)
}
