package js

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/phxworker/phxworker/runner"
)

// logLine sends a line of the step's console, if the plan wants lines of its
// level. The level is that of a job's own lines only.
func (s *step) logLine(source, level string, message []any) {
	if source == "JOB" && priorityOf(level) < priorityOf(s.run.Limits.JobLogLevel) {
		return
	}
	s.report.Log(lineOf(source, level, message))
}

// priorities are those of the levels in OpenFn's logger. Errors are sent whatever the plan says, unless that is no level.
var priorities = map[string]int{"": 0, "debug": 0, "info": 1, "log": 1, "default": 2, "always": 2, "success": 2, "warn": 2, "none": 9, "error": 100}

func priorityOf(level string) int {
	if priority, known := priorities[level]; known {
		return priority
	}
	return math.MaxInt
}

func lineOf(source, level string, message []any) runner.Line {
	line := runner.Line{Source: source, Level: level, Message: make([]json.RawMessage, len(message))}
	for i := range message {
		line.Message[i] = json.RawMessage(stringAt(message, i))
	}
	return line
}

func noStateLine(operation int) runner.Line {
	return runner.TextLine("warn", "R/T", fmt.Sprintf(
		"WARNING: No state was passed into operation %d. Did the previous operation return state?", operation))
}

// logOutcome writes what OpenFn's engine writes when a step ends, except for
// its lines of level debug; its own tells which operation an error came from that has no place in the job.
func logOutcome(report *runner.Step, job *runner.Job, out outcome, took time.Duration) {
	say := func(level, text string) { report.Log(runner.TextLine(level, "R/T", text)) }
	v := out.verdict
	logEnd(report, job, v, took)
	if v.reason == runner.Success {
		return
	}
	if out.reason == runner.Crash {
		say("error", "CRITICAL ERROR! Aborting execution")
	}
	if v.operation != "" {
		say("error", fmt.Sprintf("Error reported by %q operation line %d:", v.operation+"()", v.line))
	}
	message := out.message
	if v.heading != "" && (v.at != nil || v.operation != "") {
		message, _, _ = strings.Cut(v.heading, "\n") // of a stack, the first line is logged, and its frames
	}
	if v.at != nil {
		message += fmt.Sprintf("\n    at line %d, column %d", *v.at.Line, *v.at.Column)
	}
	say("error", message)
	if out.stepType == "InvalidOperationError" {
		say("error", "Ensure all top-level function or method calls are wrapped in an operation, like fn()")
	}
	if v.details != nil {
		say("error", "Additional error details:")
		report.Log(runner.Line{Level: "error", Source: "R/T", Message: []json.RawMessage{v.details}})
	}
	if v.under != nil { // last, for whoever shows the code takes the place that was told last
		say("debug", fmt.Sprintf("Operation %d failed at line %d, column %d", v.under.number, v.under.Position.Line, v.under.Position.Column))
	}
	if out.reason == runner.Fail {
		say("error", "Check state.errors."+job.ID+" for details")
	}
}

// logEnd says that the operations of a step have ended, well or not.
func logEnd(report *runner.Step, job *runner.Job, v verdict, took time.Duration) {
	if v.reason == runner.Success {
		report.Log(runner.TextLine("success", "R/T", job.Label()+" completed in "+formatDuration(took)))
		return
	}
	report.Log(runner.TextLine("error", "R/T", job.Label()+" aborted with error ("+formatDuration(took)+")"))
}

// formatDuration writes a duration as 12ms or 3.4s.
func formatDuration(d time.Duration) string {
	if d < time.Second {
		return strconv.FormatInt(d.Milliseconds(), 10) + "ms"
	}
	return strconv.FormatFloat(d.Seconds(), 'f', 1, 64) + "s"
}
