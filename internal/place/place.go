// Package place reads from a run's log where in a job an error is, for those who show the job's code.
package place

import (
	"regexp"
	"strconv"
)

// Place is a place in a job. Line and Column are counted from 1. Column is 0 where only the line is known; Operation is
// what was called there, such as "get", if that is known.
type Place struct {
	Line, Column int
	Operation    string
}

// What the engines write. That of an error's own words stands in front of it, and may sound the same.
var (
	embedded    = regexp.MustCompile(`(?:^Operation \d+ failed at|\n    at)() line (\d+), column (\d+)$`)
	stack       = regexp.MustCompile(`(?m)^    at (?:.* \()?()vm:module\(\d+\):(\d+)():\d+\)?$`) // its columns are those of source maps, near at best
	ofOperation = regexp.MustCompile(`^Error reported by "(.*)\(\)" operation line (\d+)():$`)
)

// Of returns the place that a line of the log tells of, by its source; not ok if it tells of none. Only the runtime is
// believed: the lines of jobs and adaptors may say anything.
func Of(source, text string) (at Place, ok bool) {
	if source != "R/T" {
		return Place{}, false
	}
	for _, form := range []*regexp.Regexp{embedded, ofOperation, stack} {
		if found := form.FindStringSubmatch(text); found != nil {
			at.Operation = found[1]
			at.Line, _ = strconv.Atoi(found[2]) // digits alone: one that is too large is in no job
			at.Column, _ = strconv.Atoi(found[3])
			return at, true
		}
	}
	return Place{}, false
}
