package js

import (
	"encoding/json"
	"strings"

	"github.com/phxworker/phxworker/runner"
	"github.com/phxworker/phxworker/runner/compile"
)

// thrown is something that a job threw, as the prelude describes it.
type thrown struct {
	// Kind is what typeof says, or "null".
	Kind string `json:"kind"`
	// Error tells whether it is an Error, and Origin which part of the
	// engine made it, if one did.
	Error  bool   `json:"error"`
	Origin string `json:"origin"`
	// Classless tells that it is an object without a constructor.
	Classless bool `json:"classless"`
	// Class is the name of its constructor; Name and Text are its name and
	// message. Of what is no object, Text is the value as a string.
	Class    string          `json:"class"`
	Name     string          `json:"name"`
	First    string          `json:"first"` // its class's name, which it had before it was given one of its own
	Text     string          `json:"text"`
	Stack    string          `json:"stack"`
	Severity string          `json:"severity"`
	Details  json.RawMessage `json:"details"`
}

func readThrown(facts string) *thrown {
	t := &thrown{}
	if err := json.Unmarshal([]byte(facts), t); err != nil {
		t.Kind, t.Text = "undefined", "an error that cannot be described"
	}
	return t
}

// text is the message of something thrown, or of a string the string itself;
// other values have none.
func (t *thrown) text() string {
	if t.Kind == "object" || t.Kind == "function" || t.Kind == "string" {
		return t.Text
	}
	return ""
}

// heading is how V8 begins the stack of the error.
func (t *thrown) heading() string {
	if t.Text == "" {
		return t.First
	}
	return t.First + ": " + t.Text
}

// verdict is what an ending means for the step and for the run.
type verdict struct {
	reason            runner.Reason
	stepType, message string
	// failure is set when the run ends with the step.
	failure *runner.Failure
	// entry is what state.errors gets, "null" for nothing.
	entry json.RawMessage
	// operation and line name the operation that an adaptor's error came from.
	operation string
	line      int
	at        *place // where in the job; nil if nowhere in it
	heading   string // how the stack of the error begins; "" for what is logged without one
	// details are what an adaptor's error has besides.
	details json.RawMessage
	under   *under // the operation under way, of an error that is nowhere in the job; nil if there was none
}

var nothing = json.RawMessage("null")

// judge says what it means that the operations ended this way.
func (s *step) judge(end ending) verdict {
	if end.thrown == nil {
		return verdict{reason: runner.Success}
	}
	frames := framesOf(end.thrown)
	s.nameMembers(frames)
	s.name(end.thrown, frames)
	v := s.classify(end, frames)
	if v.at = s.placeOf(frames); v.at == nil && end.phase == "operation" {
		v.under = s.operationUnder(end.position)
	}
	return v
}

// under is an operation of the job.
type under struct {
	compile.Operation

	number int // from 1
}

// operationUnder returns the operation that was under way, counted from 0, nil if it is not known.
func (s *step) operationUnder(position int) *under {
	if operations := s.node.module.Operations; position >= 0 && position < len(operations) {
		return &under{operations[position], position + 1}
	}
	return nil
}

// classify follows the order in which OpenFn's runtime asks what an error is.
func (s *step) classify(end ending, frames frames) verdict {
	t := end.thrown
	text := t.text()
	if end.phase == "globals" {
		text = "[globals] " + text
	}
	named := t.Class + ": " + text
	adaptors, anonymous := s.adaptorsOwn(frames)
	switch {
	case t.Origin == "exports":
		return crashed("InvalidExportsError", "InvalidExportsError: "+text)
	case t.Origin == "operation":
		return crashed("InvalidOperationError", "InvalidOperationError: "+text)
	// Now what OpenFn's engine comes to when it looks at what is no error.
	case t.Classless, (t.Kind == "null" || t.Kind == "undefined") && end.phase != "operation":
		what := t.Kind
		if t.Classless {
			what = "undefined"
		}
		return crashedAs("TypeError", "Cannot read properties of "+what+" (reading 'name')")
	case t.Kind == "null" || t.Kind == "undefined":
		return s.runtimeError("TypeError", "TypeError: Cannot read properties of "+t.Kind+" (reading 'stack')", &place{})
	case end.phase == "operation" && adaptors:
		return s.adaptorError(t, end, frames, anonymous)
	case t.Name == "AdaptorError" || t.Name == "ImportError":
		return asItIs(t)
	case strings.Contains(t.Class, "TypeError") || strings.Contains(t.Class, "RangeError"):
		v := s.runtimeError(t.Class, named, s.whereabouts(t, frames))
		v.heading = t.heading()
		return v
	case t.Severity == "crash" || strings.Contains(t.Class, "ReferenceError") || strings.Contains(t.Class, "SyntaxError"):
		v := crashed(t.Class, named)
		v.heading = t.heading()
		return v
	case t.Origin == "eval" || t.Class == "EvalError":
		return killed("SecurityError", "Illegal eval statement detected")
	}
	return failed("JobError", text, struct {
		Source   string `json:"source"`
		Name     string `json:"name"`
		Severity string `json:"severity"`
		Message  string `json:"message"`
	}{"runtime", "JobError", "fail", text})
}

// asItIs is an error that calls itself what the runtime's own are called; it says how severe it is.
func asItIs(t *thrown) verdict {
	v := killed(t.Name, t.text())
	if t.Severity != "kill" {
		v.reason, v.failure.Reason = runner.Crash, runner.Crash
	}
	return v
}

func killed(kind, message string) verdict {
	return verdict{
		reason: runner.Kill, stepType: kind, message: message, entry: nothing,
		failure: &runner.Failure{Reason: runner.Kill, Type: kind, Message: message},
	}
}

func crashed(kind, message string) verdict {
	return verdict{
		reason: runner.Crash, stepType: kind, message: message, entry: nothing,
		failure: &runner.Failure{Reason: runner.Crash, Type: "RuntimeCrash", Message: message},
	}
}

// crashedAs is a crash of which the run has the type as well.
func crashedAs(kind, message string) verdict {
	v := crashed(kind, message)
	v.failure.Type = kind
	return v
}

func failed(kind, message string, entry any) verdict {
	text, err := json.Marshal(entry)
	if err != nil {
		text = nothing
	}
	return verdict{reason: runner.Fail, stepType: kind, message: message, entry: text}
}

// runtimeError is an error of the language, at a place; nil if none can be told.
func (s *step) runtimeError(subtype, message string, at *place) verdict {
	step := ""
	if at != nil {
		step = s.node.job.Label()
	}
	return failed("RuntimeError", message, struct {
		Source   string `json:"source"`
		Name     string `json:"name"`
		Pos      *place `json:"pos,omitempty"`
		Step     string `json:"step,omitempty"`
		Severity string `json:"severity"`
		Subtype  string `json:"subtype"`
		Message  string `json:"message"`
	}{"runtime", "RuntimeError", at, step, "fail", subtype, message})
}

// whereabouts is where in the job frames are, without line and column if they are nowhere in it, or Node's own are before them; nil
// if the error has a stack of its own making.
func (s *step) whereabouts(t *thrown, frames frames) *place {
	if t.Origin == "host" {
		return &place{}
	}
	at := s.placeOf(frames)
	if at == nil && (len(frames) > 0 || t.Stack == "") {
		return &place{}
	}
	return at
}

// adaptorError is an error of an operation itself, or of a function with a name.
func (s *step) adaptorError(t *thrown, end ending, frames frames, anonymous bool) verdict {
	entry := struct {
		Source        string          `json:"source"`
		Name          string          `json:"name"`
		Pos           *place          `json:"pos,omitempty"`
		Step          string          `json:"step,omitempty"`
		Details       json.RawMessage `json:"details"`
		Severity      string          `json:"severity"`
		Message       string          `json:"message"`
		Line          int             `json:"line,omitempty"`
		OperationName string          `json:"operationName,omitempty"`
	}{Source: "runtime", Name: "AdaptorError", Details: t.Details, Severity: "fail", Message: t.Text}
	if anonymous {
		entry.Pos, entry.Step = s.placeOf(frames), s.node.job.Label()
	} else if o := s.operationUnder(end.position); o != nil {
		entry.Line, entry.OperationName = o.Position.Line, o.Name
	}
	v := failed("AdaptorError", t.Text, entry)
	v.operation, v.line, v.heading, v.details = entry.OperationName, entry.Line, t.heading(), t.Details
	return v
}
