package compile

import (
	"context"
	"fmt"
)

// A Job is the code of one job and what may be imported into it.
type Job struct {
	// Name stands in front of error messages: the job's name, or else its id.
	Name string
	// Body is the job's JavaScript in UTF-8. An empty one gives a module without operations.
	Body string
	// WrapSpreads makes an object of what is spread in another, for an engine that takes nothing of a text there.
	WrapSpreads bool
	// Adaptors are asked in this order for the names that the body uses and does not declare.
	Adaptors []Adaptor
}

// An Adaptor is a module whose exports a job may use without importing them.
type Adaptor struct {
	// Name is the module specifier to import from, such as "@openfn/language-common".
	Name string
	// Exports are the names it exports. Nil means that they could not be read: then every name that no other adaptor
	// exports and that is no global of JavaScript is imported from it.
	Exports []string
}

// A Module is a compiled job.
type Module struct {
	// Code is the text of the ES module.
	Code string
	// Operations are the calls in the default export, in order, without the elements of an array that the body exports itself.
	Operations []Operation
	// Imports are the modules the code refers to: those the body names first, in order, then those added here.
	Imports []Import

	body   string
	pieces []piece
}

// An Operation is one element of the array that a module exports.
type Operation struct {
	// Name is the callee as written if it is an identifier or a path of them ("fn", "util.log"), else "". Of a
	// promise chain it is the callee of the operation, not of `then`.
	Name string
	// Position is where the statement starts in the body.
	Position Position
}

// An Import is a reference to another module.
type Import struct {
	// Module is the specifier, such as "@openfn/language-common" or "node:path".
	Module string
	// Dynamic tells `import('x')`, which fails when it is evaluated, from a declaration, which fails the whole module.
	Dynamic bool
	// Position is where the body says so; zero for an import added by Compile.
	Position Position
}

// Compile compiles the body of one job, whatever memory that takes; see [Compiler]. Its error is an [*Error].
func Compile(job Job) (*Module, error) {
	return compile(context.Background(), job, sizeOf(job.Body))
}

// maxBody is what the compiler can count: what it notes of a module are offsets of 32 bits.
const maxBody = 64 << 20

// compile compiles a body of this size. When ctx ends, the error is its cause.
func compile(ctx context.Context, job Job, s size) (module *Module, err error) {
	defer contain(&err, job.Name)

	if len(job.Body) > maxBody {
		return nil, &Error{Name: job.Name, Message: fmt.Sprintf("The code is too large: %d bytes, over the limit of %d", len(job.Body), maxBody)}
	}
	program, err := parse(ctx, job.Body, s)
	if err != nil {
		return nil, forJob(err, job.Name)
	}
	found, err := analyse(ctx, job.Body, program)
	if err != nil {
		return nil, forJob(err, job.Name)
	}
	tokens, err := scan(job.Body, s.tokens, found.regexps)
	if err != nil {
		return nil, forJob(err, job.Name)
	}
	b := &builder{
		analysis: found,
		ctx:      ctx,
		body:     job.Body,
		cursor:   cursor{text: job.Body},
		program:  program,
		tokens:   tokens,
	}

	if err := b.lazyState(); err != nil {
		return nil, forJob(err, job.Name)
	}
	b.promiseChains()
	if job.WrapSpreads {
		b.wrapSpreads()
	}
	elements, operations := b.operations()
	if err := b.adaptorImports(job.Adaptors); err != nil {
		return nil, err
	}

	code, pieces := b.edits.apply(job.Body, b.prologue, b.tail(elements))
	return &Module{
		Code:       code,
		Operations: operations,
		Imports:    append(found.imports, b.added...),
		body:       job.Body,
		pieces:     pieces,
	}, nil
}
