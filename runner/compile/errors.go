package compile

import (
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/phxworker/phxworker/runner"
)

// An Error says why a job or a condition cannot be compiled.
type Error struct {
	// Name is the job's; empty for a condition.
	Name string
	// Message is what is wrong, on one line, such as "Unexpected token".
	Message string
	// Position is where; zero if it is not known.
	Position Position
	// Stack is where the parser panicked; nil for every ordinary error. It is for a log and not for the job's author.
	Stack []byte
}

// Error is "name: message (line:column)", with the column counted from 0, as OpenFn's own compiler words it.
func (e *Error) Error() string {
	text := e.Message
	if e.Name != "" {
		text = e.Name + ": " + text
	}
	if e.Position.Line == 0 {
		return text
	}
	return fmt.Sprintf("%s (%d:%d)", text, e.Position.Line, e.Position.Column-1)
}

// Failure makes an error of a [Compiler] how the run ends: an [Error] is a [*runner.Failure], and the end of
// the run's time stays what it is.
func Failure(err error) error {
	if e, ok := errors.AsType[*Error](err); ok {
		return &runner.Failure{Reason: runner.Crash, Type: "CompileError", Message: e.Error()}
	}
	return err
}

// errorAt is an error at a byte offset of source.
func errorAt(source string, offset int, message string) *Error {
	return &Error{Message: message, Position: positionAt(source, offset)}
}

// forJob puts the job's name on an error made where only the body was known.
func forJob(err error, name string) error {
	if e, ok := errors.AsType[*Error](err); ok {
		e.Name = name
	}
	return err
}

// contain turns a panic into an error: the parser is not ours, and one job's odd code must not end the process.
func contain(err *error, name string) {
	if r := recover(); r != nil {
		*err = &Error{Name: name, Message: "This code cannot be parsed", Stack: fmt.Appendf(nil, "%v\n%s", r, debug.Stack())}
	}
}
