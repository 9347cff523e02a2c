package compile

import (
	"sort"
	"strconv"

	"github.com/grafana/sobek/ast"
)

// Steps 3 and 4: the export and the operations in it.

// operations makes every top-level call a function that the export calls. It returns the calls as elements of the
// exported array, with commas, and what they are for the person who wrote them.
func (b *builder) operations() (elements []fragment, operations []Operation) {
	own := b.ownArray()
	if b.exported && own == nil {
		return nil, nil
	}
	for _, s := range b.program.Body {
		call := operationOf(s)
		if call == nil {
			continue
		}
		if len(operations) > 0 {
			elements = append(elements, comma)
		}
		element, operation := b.operation(call, len(operations)+1)
		elements, operations = append(elements, element), append(operations, operation)
	}
	if own != nil {
		b.putInto(own, elements)
	}
	return elements, operations
}

var comma = fragment{text: ", ", anchor: nowhere}

// ownArray returns the array that the body itself exports by default, nil if the body does not end with that. Its
// elements come after the operations that stand before it.
func (b *builder) ownArray() *ast.ArrayLiteral {
	if len(b.program.Body) == 0 {
		return nil
	}
	last, ok := b.program.Body[len(b.program.Body)-1].(*ast.ExportDeclaration)
	if !ok || !last.IsDefault {
		return nil
	}
	array, _ := last.AssignExpression.(*ast.ArrayLiteral)
	return array
}

// putInto inserts elements at the front of an array.
func (b *builder) putInto(array *ast.ArrayLiteral, elements []fragment) {
	if len(elements) > 0 && len(array.Value) > 0 {
		elements = append(elements, comma)
	}
	for _, element := range elements {
		b.edits.insert(offset(array.LeftBracket)+1, element.text, element.anchor)
	}
}

// operationOf returns the call that a statement consists of, nil if it is another kind of statement.
func operationOf(s ast.Statement) *ast.CallExpression {
	statement, ok := s.(*ast.ExpressionStatement)
	if !ok {
		return nil
	}
	call, ok := statement.Expression.(*ast.CallExpression)
	if !ok {
		return nil
	}
	if _, ok := call.Callee.(*ast.DynamicImportExpression); ok {
		return nil
	}
	return call
}

// operation makes one call a function. Evaluated where it stands it would miss the constants declared after it.
func (b *builder) operation(call *ast.CallExpression, order int) (fragment, Operation) {
	first, last := b.callRange(call)
	// At the start and the end of a statement all parentheses are its own.
	for b.tokens.kind(first-1) == '(' {
		first--
	}
	for b.tokens.kind(last+1) == ')' {
		last++
	}
	start, end := b.tokens.at(first).start, b.tokens.at(last).end

	name := b.unused("_op" + strconv.Itoa(order)) // no other operation comes to it
	before, element, after := "const "+name+" = () => ", name+"()", ";"
	if b.awaitsIn(start, end) {
		before, element = "const "+name+" = async () => ", "await "+name+"()"
	}
	if b.tokens.kind(last+1) == ';' {
		after = ""
	}
	b.edits.wrap(start, end, before, after)
	return fragment{text: element, anchor: start}, Operation{Name: b.calleeName(call), Position: b.cursor.at(start)}
}

// awaitsIn reports whether the module itself awaits something between two offsets.
func (b *builder) awaitsIn(start, end int) bool {
	i := sort.SearchInts(b.awaits, start)
	return i < len(b.awaits) && b.awaits[i] < end
}

// calleeName is the callee as written; of a promise chain, the operation's.
func (b *builder) calleeName(call *ast.CallExpression) string {
	if i, ok := b.chainOf[call]; ok {
		call = b.chains[i].operation()
	}
	return pathName(call.Callee)
}

func pathName(e ast.Expression) string {
	switch e := e.(type) {
	case *ast.Identifier:
		return e.Name.String()
	case *ast.DotExpression:
		if left := pathName(e.Left); left != "" {
			return left + "." + e.Identifier.Name.String()
		}
	}
	return ""
}

// tail is the text put behind the last line. It begins with a semicolon, for the
// body may end in the middle of what a new line does not end.
func (b *builder) tail(elements []fragment) []fragment {
	if b.exported {
		return nil
	}
	tail := append([]fragment{{text: "\n;export default [", anchor: nowhere}}, elements...)
	return append(tail, fragment{text: "];\n", anchor: nowhere})
}
