package js

import (
	"encoding/json"
	"time"

	"github.com/phxworker/phxworker/runner"
	"github.com/phxworker/phxworker/runner/js/chunk"
)

// serve answers the prelude.
func (s *step) serve(operation string, args []any) (any, error) {
	switch operation {
	case "log":
		s.logLine(stringAt(args, 0), stringAt(args, 1), args[2:])
	case "timer":
		s.timers.add(numberAt(args, 0), time.Duration(numberAt(args, 1))*time.Millisecond)
	case "clear":
		s.timers.remove(numberAt(args, 0))
	case "uncaught":
		s.uncaught(readThrown(stringAt(args, 0)), json.RawMessage(stringAt(args, 1)))
	case "call":
		if stringAt(args, 0) == chunk.Missing {
			s.lacks(stringAt(args, 1))
			return nil, nil
		}
		return chunk.Call(stringAt(args, 0), args[1:])
	case "exchange":
		return nil, s.exchange(numberAt(args, 0), stringAt(args, 1))
	case "stateless":
		s.report.Log(noStateLine(numberAt(args, 0)))
	case "settled":
		s.settled = true
		s.ending = ending{position: numberAt(args, 1), phase: stringAt(args, 2)}
		if facts := stringAt(args, 0); facts != "" {
			s.ending.thrown = readThrown(facts)
		}
	case "state":
		switch problem := stringAt(args, 1); problem {
		case "":
			s.final = final{state: rawAt(args, 0), webhookResponse: rawAt(args, 2)}
		case "unserialisable":
			s.final.problem = &runner.Failure{Reason: runner.Crash, Type: "SyntaxError", Message: `"undefined" is not valid JSON`}
		case "fixed":
			s.final.problem = &runner.Failure{Reason: runner.Crash, Type: "TypeError", Message: "Cannot delete property '" + stringAt(args, 2) + "' of #<Object>"}
		default:
			s.final = final{state: rawAt(args, 0), webhookResponse: rawAt(args, 2), own: readThrown(problem)}
		}
	}
	return nil, nil
}

// uncaught ends the run for an error that no code of the job can catch any
// more. One that shows when the operations have ended ends the step that follows: at the end of a run
// OpenFn's engine does not come to see it.
func (s *step) uncaught(t *thrown, logged json.RawMessage) {
	if s.crash != nil || s.settled && s.final.state != nil {
		return
	}
	s.name(t, framesOf(t))
	if s.settled {
		s.late = &lateError{t, logged}
		return
	}
	s.crashed(t, logged)
	s.box.vm.Interrupt()
}

// lateError is one that nobody handled while there were operations.
type lateError struct {
	thrown *thrown
	logged json.RawMessage
}

func (s *step) crashed(t *thrown, logged json.RawMessage) {
	s.report.Log(runner.TextLine("error", "ADA", "Uncaught exception in worker thread (workflow "+s.run.ID+" )"))
	s.report.Log(runner.Line{Level: "error", Source: "ADA", Message: []json.RawMessage{logged}})
	message := t.text()
	if t.Kind != "undefined" && t.Kind != "object" {
		message = t.Text
	}
	s.crash = &runner.Failure{Reason: runner.Crash, Type: "ExecutionError", Message: message}
}

// The arguments of the prelude's calls. One that is missing or undefined is
// empty.

func stringAt(args []any, i int) string {
	if i >= len(args) {
		return ""
	}
	text, _ := args[i].(string)
	return text
}

func rawAt(args []any, i int) json.RawMessage {
	if text := stringAt(args, i); text != "" {
		return json.RawMessage(text)
	}
	return nil
}

func numberAt(args []any, i int) int {
	if i >= len(args) {
		return 0
	}
	switch n := args[i].(type) {
	case int:
		return n
	case int32:
		return int(n)
	case int64:
		return int(n)
	case float64:
		return int(n)
	}
	return 0
}

// orNull makes a JSON text of one that may be missing.
func orNull(text json.RawMessage) string {
	if len(text) == 0 {
		return "null"
	}
	return string(text)
}
