// Package compile turns the body of a job into an ES module.
//
// A job's body is JavaScript in which a call at the top level is an operation: a function that returns
// `state => newState`. What runs a job wants a module whose default export is the array of these operations. The
// module this package writes is plain text for any engine: QuickJS today, Node later.
//
// # The five steps
//
//  1. Lazy state. A member chain rooted at `$` reads the state when the operation runs: `$.data.id` becomes
//     `state.data.id`, and the argument of the nearest enclosing call becomes `state => …`, unless it is already an
//     arrow whose only parameter is `state`. A method of the state takes values, and the call of it is what waits:
//     `fn($.m($.x))` becomes `fn(state => state.m(state.x))`. A `$` that the body declares is the body's own, and a
//     constant object at the top level (`const x = { … }`) is left as it is.
//  2. Promise chains. At the top scope `op(…).then(f).catch(g)` becomes `_defer(op(…), p => p.then(f).catch(g))`, with
//     defer from '@openfn/runtime'. A catch directly on the operation is its third argument.
//  3. Export. A body without a default export gets one, the array of its operations. Where an array is exported at the
//     end of a body, the operations go in front of its elements. Any other body with a default export is taken as compiled:
//     its top-level calls stay where they are.
//  4. Operations. Each top-level statement that is a call waits until every other statement has run, and is then
//     evaluated into the array, in the order of the source.
//  5. Imports. A name that is used and declared nowhere is imported from the first adaptor that exports it, and an
//     adaptor that gave a name is re-exported as a whole, so that its `execute` wraps the operations.
//
// # Lines and positions
//
// Every edit stays within its line, imports go in front of the first one, and the export comes after the last. So
// line n of the body is line n of the module, whatever prints a stack trace, and [Module.Original] finds the column
// too. To stay on its line an operation is not moved: `fn(f)` becomes `const _op1 = () => fn(f)`, and the export calls it.
//
// A [Position] counts lines and columns from 1, columns in UTF-16 code units, as editors and V8 do. The text of an
// [Error] counts columns from 0, as OpenFn's own compiler does.
//
// # What is not promised
//
// The parser is github.com/grafana/sobek/parser, which checks the grammar. What else keeps a module from being loaded is
// checked here as far as people write it by mistake: names declared twice, what strict mode does not have, groups of regular
// expressions that are not closed. The rest, such as two exports of one name, private names nobody
// declares, or an unknown escape in a pattern, is found by the engine when it loads the module.
// Syntax of later years is refused with an error, never passed on unread, and so are asynchronous generators in objects;
// `for await`, which the parser does not know either, is hidden from it. Bodies nested so deeply that parsing them could exhaust the stack are refused.
//
// Compiling takes up to a hundred times the size of a body, and more for the densest code: whoever compiles code of others does so
// with a [Compiler], which bounds it.
//
// Nothing here but that keeps state, and all functions are safe for concurrent use. They read no clock, file or network, and
// no input makes them panic.
package compile
