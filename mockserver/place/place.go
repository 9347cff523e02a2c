// Package place finds where in a job the error of a step is, in what engines tell of it: the lines that they write into
// the run's log, and the step's output. What a job or an adaptor writes is never taken for a place.
package place

import (
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Place is somewhere in a job: a line, and a column of it, both counted from 1. A column of 0 is not known.
type Place struct{ Line, Column int }

// Finder looks for the place of one step's error. It is used by one goroutine.
type Finder struct {
	// Job is the id of the step's job, and Code what is in it.
	Job, Code string
	// Globals reports whether the plan has globals. OpenFn's runtime numbers their lines like those of the job, so
	// nobody knows then which of the two it means.
	Globals bool

	line, column int
	operation    string
}

var (
	// As the embedded engine writes it below an error, or of an operation that none is in.
	inWords = regexp.MustCompile(`(?:\n    |^Operation \d+ failed )at line (\d+), column (\d+)$`)
	// As OpenFn's runtime does of an adaptor's error.
	ofOperation = regexp.MustCompile(`^Error reported by "(.*)\(\)" operation line (\d+):$`)
	// A frame of the job in the stack that it writes below an error.
	ofModule = regexp.MustCompile(`\n    at (?:[^\n]* \()?vm:module\(\d+\):(\d+):(\d+)\)?(?:\n|$)`)
)

// Read reads a line of the run's log. Of those that tell a place, the last counts.
func (f *Finder) Read(source, text string) {
	if OfJob(source) {
		return
	}
	if found := ofOperation.FindStringSubmatch(text); found != nil {
		f.line, f.column, f.operation = number(found[2]), 0, found[1]
	} else if found := inWords.FindStringSubmatch(text); found != nil {
		f.line, f.column, f.operation = number(found[1]), number(found[2]), ""
	} else if found := ofModule.FindStringSubmatch(text); found != nil && !f.Globals {
		f.line, f.column, f.operation = number(found[1]), f.columnInNode(number(found[1]), number(found[2])), ""
	}
}

// OfJob reports whether what is from this source in a log was written by a job, an adaptor or the process of an engine.
func OfJob(source string) bool { return slices.Contains([]string{"JOB", "ADA", "OUT", "ERR"}, source) }

// Find returns the place. The output is the step's, as JSON, or a text with it; it is looked at if the log told
// nothing, as one that leaves lines out.
func (f *Finder) Find(output json.RawMessage) (Place, bool) {
	if f.line == 0 {
		f.look(output)
	}
	text, ok := f.textOf(f.line)
	if !ok {
		return Place{}, false
	}
	at := Place{f.line, f.column}
	if before, _, found := strings.Cut(text, f.operation+"("); f.operation != "" && found {
		at.Column = utf8.RuneCountInString(before) + 1
	}
	return at, true
}

// look takes the place that the state's errors have of the job.
func (f *Finder) look(output json.RawMessage) {
	var text string
	if json.Unmarshal(output, &text) == nil {
		output = json.RawMessage(text)
	}
	var state struct {
		Errors map[string]struct {
			Position struct {
				Line, Column int
				Source       string `json:"src"`
			} `json:"pos"`
			Line      int
			Operation string `json:"operationName"`
		}
	}
	if json.Unmarshal(output, &state) != nil {
		return // a job may put anything there
	}
	e := state.Errors[f.Job]
	switch text, ok := f.textOf(e.Position.Line); {
	case e.Operation != "":
		f.line, f.operation = e.Line, e.Operation
	case ok && text == e.Position.Source && !f.Globals:
		f.line, f.column = e.Position.Line, f.columnInNode(e.Position.Line, e.Position.Column)
	}
}

// textOf returns what is in a line of the job; not ok if it has no such line.
func (f *Finder) textOf(line int) (text string, ok bool) {
	lines := strings.Split(f.Code, "\n")
	if line < 1 || line > len(lines) {
		return "", false
	}
	return lines[line-1], true
}

// columnInNode returns the column that OpenFn's runtime means. It counts from 0, and looks up in its source map what is
// one to the right of the error: behind a name of one letter, which the column then follows.
func (f *Finder) columnInNode(line, column int) int {
	text, ok := f.textOf(line)
	if !ok {
		return 0
	}
	if runes := []rune(text); column >= len(runes) || !isOfName(runes[column]) {
		return column
	}
	return column + 1
}

func isOfName(r rune) bool { return r == '_' || r == '$' || unicode.IsLetter(r) || unicode.IsDigit(r) }

// number reads digits alone: what is too large for a number is in no job.
func number(digits string) int {
	n, _ := strconv.Atoi(digits)
	return n
}
