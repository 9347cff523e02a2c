package js

import (
	"regexp"
	"strconv"

	"github.com/phxworker/phxworker/runner/compile"
	"github.com/phxworker/phxworker/runner/js/chunk"
)

// frames are those of a stack trace that tell whose code it was, innermost
// first. QuickJS's own functions are left out, and the place in a text that
// JSON.parse was given.
type frames []frame

type frame struct {
	file         string
	line, column int
}

var frameText = regexp.MustCompile(`(?m)^\s*at .*\(([^()]*?)(?::(\d+))?(?::(\d+))?\)$`)

func readFrames(stack string) frames {
	var all frames
	for _, m := range frameText.FindAllStringSubmatch(stack, -1) {
		if m[1] == "native" {
			continue
		}
		f := frame{file: m[1]}
		f.line, _ = strconv.Atoi(m[2])
		f.column, _ = strconv.Atoi(m[3])
		all = append(all, f)
	}
	return all
}

// inAdaptor reports whether the innermost code is an adaptor's, and not a job's.
func (s *step) inAdaptor(all frames) bool {
	for _, f := range all {
		switch {
		case f.file == jobModule || f.file == globalsModule:
			return false
		case s.prelude.isAdaptor(f.line), f.line > chunk.FirstLine:
			return true
		}
		// What stands in for Node's functions acts for its caller.
	}
	return false
}

// place is a line and column of the job as its user wrote it.
type place struct {
	Line   *int `json:"line"`
	Column *int `json:"column"`
}

// placeOf returns where the job was, nil if it was not in the job.
func (s *step) placeOf(all frames) *place {
	for _, f := range all {
		if f.file != jobModule {
			continue
		}
		at, ok := s.node.module.Original(f.line, f.column, compile.QuickJS)
		if !ok {
			return nil
		}
		return &place{&at.Line, &at.Column}
	}
	return nil
}
