package js

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/phxworker/phxworker/runner/compile"
	"github.com/phxworker/phxworker/runner/js/chunk"
)

// frames are those of a stack trace that tell whose code it was, innermost
// first. QuickJS's own functions are left out, and the place in a text that
// JSON.parse was given.
type frames []frame

type frame struct {
	// name is the function's; empty for one without a name, and for a module.
	name         string
	file         string
	line, column int
}

var frameText = regexp.MustCompile(`(?m)^\s*at (.*?) ?\(([^()]*?)(?::(\d+))?(?::(\d+))?\)$`)

// stackLimit is how many frames V8 notes.
const stackLimit = 10

func readFrames(stack string) frames {
	var all frames
	for _, m := range frameText.FindAllStringSubmatch(stack, stackLimit) {
		if m[2] == "native" {
			continue
		}
		f := frame{name: m[1], file: m[2]}
		if f.name == "<anonymous>" {
			f.name = ""
		}
		f.line, _ = strconv.Atoi(m[3])
		f.column, _ = strconv.Atoi(m[4])
		if n := len(all); n > 0 && f.name == "fire" && !f.ofJob() && all[n-1].name == "" {
			all[n-1].name = "Timeout._onTimeout" // as V8 calls what a timer calls
		}
		all = append(all, f)
	}
	return all
}

// framesOf returns the frames of an error as V8 notes them. QuickJS notes the constructors of an error's own class, and of a
// class that is called without new, as well.
func framesOf(t *thrown) frames {
	all := readFrames(t.Stack)
	for i, f := range all {
		if f.name == "" || !f.ofJob() {
			break
		}
		if f.name == t.Class || t.Text == noNew {
			return all[i+1:]
		}
	}
	return all
}

// functionToMember is code that may assign a function to a member.
var functionToMember = regexp.MustCompile(`(\.\s*[\w$]+|\])\s*=\s*(async\b|function\b|\(|[\w$]+\s*=>)`)

// nameMembers names the functions without a name that were assigned to a member.
func (s *step) nameMembers(all frames) {
	if !functionToMember.MatchString(s.node.job.Body) {
		return
	}
	for i, f := range all {
		if f.name == "" && f.file == jobModule {
			if c := s.culpritAt(f); c != nil {
				all[i].name = c.assignedTo()
			}
		}
	}
}

// ofJob reports whether the code is what a user wrote.
func (f frame) ofJob() bool { return f.file == jobModule || f.file == globalsModule }

// adaptorsOwn reports whether an operation's error is the adaptor's by the rule of OpenFn's runtime: the innermost code is
// an adaptor's, or a function of the job's that has a name. Anonymous tells that a function of the job's without one is
// among the frames; only then does the runtime look for the place in the job.
func (s *step) adaptorsOwn(all frames) (own, anonymous bool) {
	decided := false
	for _, f := range all {
		// What stands in for Node's functions acts for its caller.
		if ofJob := f.ofJob(); ofJob || s.prelude.isAdaptor(f.line) || f.line > chunk.FirstLine {
			if !decided {
				own, decided = !ofJob || f.name != "", true
			}
			anonymous = anonymous || ofJob && f.name == ""
		}
	}
	return own, anonymous
}

// place is a line and column of the job as its user wrote it.
type place struct {
	Line   *int `json:"line"`
	Column *int `json:"column"`
	// Source is the whole line.
	Source string `json:"src,omitempty"`
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
		return &place{Line: &at.Line, Column: &at.Column, Source: lineOfText(s.node.job.Body, at.Line)}
	}
	return nil
}

// lineOfText returns a line of a text, counted from 1.
func lineOfText(text string, line int) string {
	lines := strings.SplitN(text, "\n", line+1)
	if line > len(lines) {
		return ""
	}
	return lines[line-1]
}
