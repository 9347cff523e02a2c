package compile

import (
	"context"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/grafana/sobek/ast"
	operator "github.com/grafana/sobek/token"
)

// Early errors: what the parser lets pass, and an engine refuses when it loads the module, which is when the steps
// before have run. A job is a module and so in strict mode. Words and positions are those of acorn, OpenFn's parser.

// undefinedExports refuses `export { a }` where the module declares no a.
func (w *walker) undefinedExports(ctx context.Context) error {
	for _, export := range w.exports {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if !export.declared() {
			w.fail(export.offset, "Export '"+export.name+"' is not defined")
		}
	}
	return nil
}

// window bounds how far a name is looked for that may not be spelt like that: for each of very many names.
const window = 1 << 12

// find returns where a name stands next from an offset on, for declarations whose parts have no position in the tree.
// Where it is not spelt like that it returns the offset.
func (w *walker) find(name string, from int) int {
	near := w.body[:min(len(w.body), from+len(name)+window)]
	for at := from; ; {
		i := strings.Index(near[at:], name)
		if i < 0 {
			return from
		}
		at += i
		end := at + len(name)
		if (at == 0 || !isWordByte(w.body[at-1])) && (end == len(w.body) || !isWordByte(w.body[end])) {
			return at
		}
		at = end
	}
}

// checkName refuses as a name what is a keyword in strict mode, or in a module.
func (w *walker) checkName(name string, offset int) {
	switch name {
	case "implements", "interface", "let", "package", "private", "protected", "public", "static", "yield":
		w.fail(offset, "The keyword '"+name+"' is reserved")
	case "await":
		w.fail(offset, "Cannot use keyword 'await' outside an async function")
	}
}

// checkBinding refuses names that nothing may be declared by.
func (w *walker) checkBinding(name string, offset int) {
	if name == "eval" || name == "arguments" {
		w.fail(offset, "Binding "+name+" in strict mode")
	}
	w.checkName(name, offset)
}

func (w *walker) checkAssigned(id *ast.Identifier) {
	if id.Name == "eval" || id.Name == "arguments" {
		w.fail(offset(id.Idx), "Assigning to "+id.Name.String()+" in strict mode")
	}
}

func (w *walker) checkUnary(e *ast.UnaryExpression) {
	id, ok := e.Operand.(*ast.Identifier)
	if !ok {
		return
	}
	switch e.Operator {
	case operator.DELETE:
		w.fail(offset(e.Idx), "Deleting local variable in strict mode")
	case operator.INCREMENT, operator.DECREMENT:
		w.checkAssigned(id)
	}
}

func (w *walker) checkSuper(e *ast.SuperExpression, p place) {
	if !p.super {
		w.fail(offset(e.Idx), "'super' keyword outside a method")
	}
}

// key visits the name of a property.
func (w *walker) key(key ast.Expression, computed bool, p place) {
	if computed {
		w.expression(key, p)
		return
	}
	w.checkLiteral(key)
}

// checkLiteral refuses octal numbers, and escapes for them in strings, as they were written long ago.
func (w *walker) checkLiteral(e ast.Expression) {
	switch e := e.(type) {
	case *ast.NumberLiteral:
		if len(e.Literal) > 1 && e.Literal[0] == '0' && isDigit(e.Literal[1]) {
			w.fail(offset(e.Idx), "Invalid number")
		}
	case *ast.StringLiteral:
		switch i := digitEscape(e.Literal); {
		case i < 0:
		case e.Literal[i+1] >= '8':
			w.fail(offset(e.Idx)+i+1, "Invalid escape sequence")
		default:
			w.fail(offset(e.Idx)+i, "Octal literal in strict mode")
		}
	}
}

func (w *walker) checkTemplate(e *ast.TemplateLiteral) {
	for _, element := range e.Elements {
		if e.Tag == nil && digitEscape(element.Literal) >= 0 {
			_, first := utf8.DecodeRuneInString(element.Literal) // the parser points behind it
			w.fail(offset(element.Idx)-first, "Bad escape sequence in untagged template literal")
		}
	}
}

// digitEscape is the index of the first backslash before a digit, but for a lone 0, or -1.
func digitEscape(text string) int {
	for i := 0; i+1 < len(text); i++ {
		if text[i] != '\\' {
			continue
		}
		i++
		if isDigit(text[i]) && (text[i] != '0' || i+1 < len(text) && isDigit(text[i+1])) {
			return i - 1
		}
	}
	return -1
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// failShorthand refuses `{ a = 1 }` where it is no pattern.
func (w *walker) failShorthand(property *ast.PropertyShort) {
	at := offset(property.Name.Idx1())
	at += max(strings.IndexByte(w.body[at:offset(property.Initializer.Idx0())], '='), 0)
	w.fail(at, "Shorthand property assignments are valid only in destructuring patterns")
}

// checkConst refuses a constant without a value.
func (w *walker) checkConst(s *ast.LexicalDeclaration) {
	for _, b := range s.List {
		if s.Token == operator.CONST && b.Initializer == nil {
			end := offset(b.Target.Idx1())
			w.fail(end+len(w.body[end:])-len(strings.TrimLeft(w.body[end:], " \t\r\n")), unexpectedToken)
		}
	}
}

const regexpFlags = "dgimsuvy"

// checkRegexp refuses a regular expression whose groups are not closed, that repeats nothing, or whose flags are
// wrong. All else is left to the engine: each knows another set of patterns.
func (w *walker) checkRegexp(e *ast.RegExpLiteral) {
	at := offset(e.Idx) + 1
	for i := range len(e.Flags) {
		switch {
		case strings.IndexByte(regexpFlags, e.Flags[i]) < 0:
			w.fail(at, "Invalid regular expression flag")
		case strings.Contains(e.Flags[:i], e.Flags[i:i+1]):
			w.fail(at, "Duplicate regular expression flag")
		}
	}
	if strings.Contains(e.Flags, "v") {
		if strings.Contains(e.Flags, "u") {
			w.fail(at, "Invalid regular expression flag")
		}
		return // its classes nest
	}
	if problem := regexpProblem(e.Pattern); problem != "" {
		w.fail(at, "Invalid regular expression: /"+e.Pattern+"/: "+problem)
	}
}

func regexpProblem(pattern string) string {
	groups, class := 0, false
	for i := 0; i < len(pattern); i++ {
		c := pattern[i]
		switch {
		case c == '\\':
			i++
		case class:
			class = c != ']'
		case c == '[':
			class = true
		case c == '(':
			groups++
		case c == ')' && groups == 0:
			return "Unmatched ')'"
		case c == ')':
			groups--
		case slices.Contains([]byte("*+?"), c) && (i == 0 || pattern[i-1] == '|' || c != '?' && pattern[i-1] == '('):
			if i > 1 && pattern[i-2] == '\\' {
				continue
			}
			return "Nothing to repeat"
		}
	}
	if groups > 0 {
		return "Unterminated group"
	}
	return ""
}
