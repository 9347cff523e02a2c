package compile

import (
	"context"

	"github.com/grafana/sobek/ast"
	"github.com/grafana/sobek/file"
)

// An analysis is what one walk over a body finds out for the five steps.
type analysis struct {
	names      map[string]struct{} // every name declared or used
	references []reference
	lazy       []lazyReference
	chains     []chain
	chainOf    map[*ast.CallExpression]int // the index of the chain that a call is part of
	imports    []Import
	regexps    map[int]bool // offsets of regular expressions
	awaits     []int        // offsets of `await` outside every function, in order
	spreads    []int        // offsets of the braces of object literals that something is spread in
	// exported tells that the body has a default export.
	exported bool
	exports  []reference // what is exported by its name
	// calls are those of a name, by the offset of that name; nil where nobody asks for them.
	calls map[int]*ast.CallExpression
}

// An argument is one argument of a call. Lazy state turns arguments into functions.
type argument struct {
	call  *ast.CallExpression
	index int
	outer *argument // the argument this one is part of, if no statement stands between them
	lazy  bool      // it becomes a function
}

// place is where in the body a walk stands.
type place struct {
	scope *scope
	// argument is the nearest enclosing argument, those of the state's own methods left out; nil outside of calls and
	// inside a statement or a class.
	argument *argument
	// nested tells that a function, a block or a class is around, so that this is not the top scope.
	nested bool
	// function tells that a function is around, so that `await` is not the module's.
	function bool
	// super tells that `super.x` may stand here, and superCall that `super()` may.
	super, superCall bool
	// constant tells that a constant object at the top level is around, in which `$` is not lazy state.
	constant bool
}

// inside is the place within a block, or anything that begins a scope.
func (p place) inside(function bool) place {
	return place{
		scope:     &scope{outer: p.scope, function: function},
		nested:    true,
		function:  p.function || function,
		constant:  p.constant,
		super:     p.super,
		superCall: p.superCall,
	}
}

// walker visits every node of a syntax tree.
type walker struct {
	analysis
	body     string
	cursor   cursor
	forAwait map[int]int
	// lazyChain is the chain of members and calls visited last that begins with `$`.
	lazyChain ast.Expression
	err       *Error // the first
}

// analyse walks over the body.
func analyse(ctx context.Context, body string, tree *syntaxTree) (*analysis, error) {
	return newWalker(body, tree).walk(ctx, tree)
}

func newWalker(body string, tree *syntaxTree) *walker {
	return &walker{body: body, cursor: cursor{text: body}, forAwait: tree.forAwait, analysis: analysis{
		names:   map[string]struct{}{},
		chainOf: map[*ast.CallExpression]int{},
		regexps: map[int]bool{},
	}}
}

func (w *walker) walk(ctx context.Context, tree *syntaxTree) (*analysis, error) {
	top := place{scope: &scope{function: true}}
	for _, s := range tree.Body {
		w.topLevel(s, top)
	}
	if err := w.undefinedExports(ctx); err != nil {
		return nil, err
	}
	if w.err != nil {
		return nil, w.err
	}
	return &w.analysis, nil
}

// offset is where a node starts in the body; the parser counts from 1.
func offset(i file.Idx) int { return int(i) - 1 }

func (w *walker) fail(offset int, message string) {
	if w.err == nil {
		w.err = errorAt(w.body, offset, message)
	}
}

func (w *walker) declare(name string, offset int, as declaration, p place) {
	w.names[name] = struct{}{}
	w.checkBinding(name, offset)
	switch {
	case p.scope.declare(name, as):
	case as == parameter:
		w.fail(offset, "Argument name clash")
	default:
		w.fail(offset, "Identifier '"+name+"' has already been declared")
	}
}

func (w *walker) use(name string, offset int, p place) {
	w.names[name] = struct{}{}
	w.checkName(name, offset)
	w.references = append(w.references, reference{name: name, offset: offset, scope: p.scope})
}

// topLevel visits a statement of the module.
func (w *walker) topLevel(s ast.Statement, p place) {
	switch s := s.(type) {
	case *ast.VariableStatement:
		w.constants(s.List, variable, p)
	case *ast.LexicalDeclaration:
		w.checkConst(s)
		w.constants(s.List, lexical, p)
	case *ast.ImportDeclaration:
		w.importDeclaration(s, p)
	case *ast.ExportDeclaration:
		w.exportDeclaration(s, p)
	default:
		w.statement(s, p)
	}
}

// constants visits variables of the top level; in an object that is one's value `$` is left alone.
func (w *walker) constants(list []*ast.Binding, as declaration, p place) {
	for _, b := range list {
		q := p
		_, q.constant = b.Initializer.(*ast.ObjectLiteral)
		w.binding(b, as, q)
	}
}

func (w *walker) importDeclaration(s *ast.ImportDeclaration, p place) {
	module := s.ModuleSpecifier
	if s.FromClause != nil {
		module = s.FromClause.ModuleSpecifier
	}
	w.imported(module.String(), offset(s.Idx), false)
	clause := s.ImportClause
	if clause == nil {
		return
	}
	at := offset(s.Idx) + len("import")
	if clause.ImportedDefaultBinding != nil {
		at = offset(clause.ImportedDefaultBinding.Idx)
		w.declare(clause.ImportedDefaultBinding.Name.String(), at, lexical, p)
	}
	if clause.NameSpaceImport != nil {
		name := clause.NameSpaceImport.ImportedBinding.String()
		w.declare(name, w.find(name, at), lexical, p)
	}
	if clause.NamedImports != nil {
		for _, i := range clause.NamedImports.ImportsList {
			name := i.IdentifierName.String()
			at = w.find(name, at)
			if i.Alias != "" {
				at = w.find(i.Alias.String(), at+len(name))
				name = i.Alias.String()
			}
			w.declare(name, at, lexical, p)
			at += len(name)
		}
	}
}

func (w *walker) exportDeclaration(s *ast.ExportDeclaration, p place) {
	if s.IsDefault && w.exported {
		w.fail(w.find("default", offset(s.Idx)), "Duplicate export 'default'")
	}
	w.exported = w.exported || s.IsDefault
	switch {
	case s.Variable != nil:
		w.bindings(s.Variable.List, variable, p)
	case s.LexicalDeclaration != nil:
		w.checkConst(s.LexicalDeclaration)
		w.bindings(s.LexicalDeclaration.List, lexical, p)
	case s.ClassDeclaration != nil:
		w.statement(s.ClassDeclaration, p)
	case s.HoistableDeclaration != nil:
		w.statement(s.HoistableDeclaration.FunctionDeclaration, p)
	case s.AssignExpression != nil:
		w.expression(s.AssignExpression, p)
	case s.NamedExports != nil:
		at := offset(s.Idx) + len("export")
		for _, e := range s.NamedExports.ExportsList {
			w.exported = w.exported || e.Alias == "default" || e.Alias == "" && e.IdentifierName == "default"
			if s.FromClause == nil {
				name := e.IdentifierName.String()
				at = w.find(name, at)
				w.exports = append(w.exports, reference{name: name, offset: at, scope: p.scope})
				at += len(name)
				if e.Alias != "" {
					at = w.find(e.Alias.String(), at) + len(e.Alias)
				}
			}
		}
	}
	if s.FromClause != nil {
		w.imported(s.FromClause.ModuleSpecifier.String(), offset(s.Idx), false)
	}
}

func (w *walker) imported(module string, offset int, dynamic bool) {
	w.imports = append(w.imports, Import{Module: module, Dynamic: dynamic, Position: w.cursor.at(offset)})
}
