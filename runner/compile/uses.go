package compile

import (
	"context"

	"github.com/grafana/sobek/ast"
)

// A Use is one place where a body takes something from outside: a name that it imports, or one that it
// declares nowhere and that an adaptor may have.
type Use struct {
	// Module is what the name is imported from, "" for a name that is declared nowhere.
	Module string
	// Name is the one that the module has for it: "default", or "*" for all that the module exports.
	Name string
	// How tells what the body does with it.
	How Usage
	// Text is the first argument, where How is [CalledWithText].
	Text string
	// Position is where the body says so.
	Position Position
}

// A Usage is what a body does with a name.
type Usage int

const (
	// Imported is the declaration alone. The uses of the name are listed by themselves.
	Imported Usage = iota
	// Mentioned is any other use than a call, or a call of which it cannot be told what its first argument is.
	Mentioned
	// CalledWithText is a call whose first argument is a text that is written out.
	CalledWithText
	// CalledWithout is a call whose first argument is no text: a function, an object, a number, or a reference to the state.
	CalledWithout
)

// Uses returns what a body takes from outside, in the order in which it does. Of code that does not compile, it may
// return anything; when ctx ends, the error is its cause.
func (b *Batch) Uses(ctx context.Context, body string) (uses []Use, err error) {
	err = b.within(ctx, Job{Body: body}, func(s size) error {
		uses, err = usesOf(ctx, body, s)
		return err
	})
	return uses, err
}

func usesOf(ctx context.Context, body string, s size) (uses []Use, err error) {
	defer contain(&err, "")
	program, err := parse(ctx, body, s)
	if err != nil {
		return nil, err
	}
	w := newWalker(body, program)
	w.calls = map[int]*ast.CallExpression{}
	found, err := w.walk(ctx, program)
	if err != nil {
		return nil, err
	}
	l := &listing{analysis: found, cursor: cursor{text: body}, lazyAt: map[int]bool{}, imported: map[string]Use{}}
	for _, ref := range found.lazy {
		l.lazyAt[ref.offset] = !ref.declared()
	}
	for _, s := range program.Body {
		l.declaration(s)
	}
	l.references()
	return l.uses, nil
}

// listing lists the uses of a body.
type listing struct {
	*analysis
	cursor   cursor
	lazyAt   map[int]bool   // where a `$` stands that is the state
	imported map[string]Use // by the name that the body has for it
	uses     []Use
}

func (l *listing) declaration(s ast.Statement) {
	switch s := s.(type) {
	case *ast.ImportDeclaration:
		if s.FromClause == nil || s.ImportClause == nil {
			return
		}
		module, clause := s.FromClause.ModuleSpecifier.String(), s.ImportClause
		at := l.cursor.at(offset(s.Idx))
		if clause.ImportedDefaultBinding != nil {
			l.imports(module, "default", clause.ImportedDefaultBinding.Name.String(), at)
		}
		if clause.NameSpaceImport != nil {
			l.imports(module, "*", clause.NameSpaceImport.ImportedBinding.String(), at)
		}
		if clause.NamedImports != nil {
			for _, i := range clause.NamedImports.ImportsList {
				local := i.Alias
				if local == "" {
					local = i.IdentifierName
				}
				l.imports(module, i.IdentifierName.String(), local.String(), at)
			}
		}
	case *ast.ExportDeclaration:
		if s.FromClause == nil {
			return
		}
		use := Use{Module: s.FromClause.ModuleSpecifier.String(), Name: "*", How: Mentioned, Position: l.cursor.at(offset(s.Idx))}
		if s.NamedExports == nil {
			l.uses = append(l.uses, use)
			return
		}
		for _, e := range s.NamedExports.ExportsList {
			use.Name = e.IdentifierName.String()
			l.uses = append(l.uses, use)
		}
	}
}

func (l *listing) imports(module, name, local string, at Position) {
	use := Use{Module: module, Name: name, How: Imported, Position: at}
	l.imported[local] = use
	l.uses = append(l.uses, use)
}

// references lists the names that are declared nowhere, and those that are imported. Another declaration of the same
// name further in counts as the imported one, too.
func (l *listing) references() {
	l.cursor = cursor{text: l.cursor.text}
	for _, ref := range append(l.analysis.references, l.exports...) {
		use, imported := l.imported[ref.name]
		if !imported && ref.declared() {
			continue
		}
		if !imported {
			use.Name = ref.name
		}
		use.Position = l.cursor.at(ref.offset)
		use.How = Mentioned
		if call := l.calls[ref.offset]; call != nil {
			use.How, use.Text = l.firstArgument(call)
		}
		l.uses = append(l.uses, use)
	}
}

func (l *listing) firstArgument(call *ast.CallExpression) (Usage, string) {
	if len(call.ArgumentList) == 0 {
		return CalledWithout, ""
	}
	switch e := call.ArgumentList[0].(type) {
	case *ast.StringLiteral:
		return CalledWithText, e.Value.String()
	case *ast.TemplateLiteral:
		if e.Tag == nil && len(e.Expressions) == 0 {
			return CalledWithText, e.Elements[0].Parsed.String()
		}
	case *ast.ArrowFunctionLiteral, *ast.FunctionLiteral, *ast.ArrayLiteral, *ast.ObjectLiteral, *ast.NumberLiteral, *ast.BooleanLiteral, *ast.NullLiteral:
		return CalledWithout, ""
	case *ast.DotExpression, *ast.BracketExpression, *ast.OptionalChain:
		if l.isState(e) {
			return CalledWithout, ""
		}
	}
	return Mentioned, ""
}

// isState reports whether an expression is a chain of members of `$`: an argument that becomes a function.
func (l *listing) isState(e ast.Expression) bool {
	for {
		switch inner := e.(type) {
		case *ast.DotExpression:
			e = inner.Left
		case *ast.BracketExpression:
			e = inner.Left
		case *ast.OptionalChain:
			e = inner.Expression
		case *ast.Optional:
			e = inner.Expression
		case *ast.Identifier:
			return l.lazyAt[offset(inner.Idx)]
		default:
			return false
		}
	}
}
