package js

import (
	"context"
	"encoding/json"
	"errors"
	"regexp"
	"strings"
	"unicode/utf16"

	"github.com/phxworker/phxworker/runner"
	"github.com/phxworker/phxworker/runner/compile"
)

// conditions evaluates the expressions on the edges of one run, in a VM that no
// job has touched.
type conditions struct {
	box       *sandbox
	functions map[*edge]any
	log       func(runner.Line)
}

// follow returns the nodes that come after one, and the state as the conditions
// left it. failed tells whether the state has an error of the node.
func (x *execution) follow(ctx context.Context, n *node, report *runner.Step, state json.RawMessage, failed bool) ([]*node, json.RawMessage, error) {
	var next []*node
	evaluated := false
	for _, e := range n.edges {
		holds := false
		switch e.kind {
		case always:
			holds = true
		case onSuccess:
			holds = !failed
		case onFailure:
			holds = failed
		case expression:
			if !evaluated {
				if err := x.openConditions(ctx, report, state); err != nil {
					return nil, nil, err
				}
				evaluated = true
			}
			var err error
			if holds, err = x.evaluate(ctx, e); err != nil {
				return nil, nil, err
			}
		}
		if holds {
			next = append(next, e.to)
		}
	}
	if !evaluated {
		return next, state, nil
	}
	text, err := x.conditionCall(ctx, "changed")
	if err != nil {
		return nil, nil, err
	}
	if text == "" {
		return next, nil, nil
	}
	return next, json.RawMessage(text), nil
}

func (x *execution) openConditions(ctx context.Context, report *runner.Step, state json.RawMessage) error {
	if x.conditions == nil {
		x.conditions = &conditions{functions: make(map[*edge]any)}
		box, err := x.stock.take(uint64(x.run.Limits.MemoryMB*(1<<20)), x.conditions.serve)
		if err != nil {
			return &runner.Failure{Reason: runner.Exception, Type: "EngineError", Message: err.Error()}
		}
		x.conditions.box = box
	}
	x.conditions.log = x.run.Log
	if report != nil {
		x.conditions.log = report.Log
	}
	_, err := x.conditionCall(ctx, "conditions", string(state))
	return err
}

func (x *execution) evaluate(ctx context.Context, e *edge) (bool, error) {
	function, known := x.conditions.functions[e]
	if !known {
		var err error
		if function, err = x.conditions.box.vm.Eval(e.function); err != nil {
			return false, edgeError(err.Error())
		}
		x.conditions.functions[e] = function
	}
	answer, err := x.conditionCall(ctx, "evaluate", function, e.from.id)
	switch {
	case err != nil:
		return false, err
	case answer == "true", answer == "false":
		return answer == "true", nil
	}
	t := readThrown(answer)
	t.nameNative()
	t.reword()
	return false, edgeError(t.text())
}

// conditionCall calls the VM of the conditions, and stops it when ctx ends.
func (x *execution) conditionCall(ctx context.Context, entry string, args ...any) (string, error) {
	box := x.conditions.box
	release := box.guard(ctx)
	defer release()
	answer, err := box.call(entry, args...)
	switch {
	case ctx.Err() != nil:
		return "", context.Cause(ctx)
	case box.vm.Exhausted():
		return "", &runner.Failure{Reason: runner.Kill, Type: "OOMError", Message: "Run exceeded maximum memory usage"}
	case err != nil:
		return "", edgeError(err.Error())
	}
	text, _ := answer.(string)
	return text, nil
}

func edgeError(message string) *runner.Failure {
	return &runner.Failure{Reason: runner.Crash, Type: "EdgeConditionError", Message: message}
}

// conditionMessage is what is wrong with a condition, without where, in V8's words.
func conditionMessage(err error, condition string) string {
	failure, ok := errors.AsType[*compile.Error](err)
	if !ok {
		return err.Error()
	}
	before, after := textAround(condition, failure.Position)
	switch token, ok := strings.CutPrefix(failure.Message, "Unexpected token "); {
	case afterAwait.MatchString(before):
		return "await is only valid in async functions and the top level bodies of modules"
	case failure.Message == "Unexpected identifier":
		return "Unexpected identifier '" + identifier.FindString(after) + "'"
	case token == "ILLEGAL":
		return "Invalid or unexpected token"
	case ok:
		return "Unexpected token '" + token + "'"
	}
	return failure.Message
}

var (
	afterAwait = regexp.MustCompile(`(^|[^\w$.])await\s+$`)
	identifier = regexp.MustCompile(`^[\w$]*`)
)

// textAround returns what stands on the line of a position, before and after it.
func textAround(text string, at compile.Position) (before, after string) {
	line := utf16.Encode([]rune(lineOfText(text, at.Line)))
	column := min(max(at.Column-1, 0), len(line))
	return string(utf16.Decode(line[:column])), string(utf16.Decode(line[column:]))
}

func (c *conditions) serve(operation string, args []any) (any, error) {
	if operation == "log" {
		c.log(lineOf(stringAt(args, 0), stringAt(args, 1), args[2:]))
	}
	return nil, nil
}

func (c *conditions) close(s *stock) {
	if c.box != nil {
		s.discard(c.box)
	}
}
