package main

import (
	"fmt"
	"io"
	"regexp"
	"strings"

	"github.com/phxworker/phxworker/mockserver/conform/suite"
)

// tails writes the end of what the subject wrote in each case that failed. A text that many cases have in common, such
// as that of a worker that does not start, is written once.
type tails struct {
	w     io.Writer
	first map[string]told // by the text without its numbers
}

// told is a text that was written, and of which case.
type told struct{ id, text string }

func newTails(w io.Writer) *tails { return &tails{w: w, first: map[string]told{}} }

const tailLines = 3

// numbers are times, ports, ids and the like, which differ where the text is the same.
var numbers = regexp.MustCompile(`[\da-fA-F-]*\d[\da-fA-F-]*`)

// write writes the last lines of each output of a case that failed.
func (t *tails) write(r suite.Result) {
	if r.Verdict != suite.Failed {
		return
	}
	for _, o := range r.Outputs {
		lines := lastLines(o.Text)
		if len(lines) == 0 {
			continue
		}
		text := strings.Join(lines, "\n")
		key := numbers.ReplaceAllString(text, "0")
		switch first, found := t.first[key]; {
		case found && first.text == text:
			fmt.Fprintf(t.w, "          %s ends with the same as in %s\n", o.Name, first.id)
			continue
		case found:
			fmt.Fprintf(t.w, "          %s ends with the same as in %s, but for numbers\n", o.Name, first.id)
			continue
		}
		t.first[key] = told{r.ID, text}
		fmt.Fprintf(t.w, "          %s, at the end:\n", o.Name)
		for _, line := range lines {
			fmt.Fprintf(t.w, "            %s\n", line)
		}
	}
}

// mostOfALine is how much of a line a terminal is given.
const mostOfALine = 300

// lastLines are the last lines with something in them, without what a terminal would obey.
func lastLines(text string) (last []string) {
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(strings.Map(printable, line))
		if line == "" {
			continue
		}
		if runes := []rune(line); len(runes) > mostOfALine {
			line = string(runes[:mostOfALine]) + "…"
		}
		last = append(last, line)
	}
	return last[max(0, len(last)-tailLines):]
}

func printable(r rune) rune {
	switch {
	case r == '\t':
		return ' '
	case r < ' ' || r >= 0x7f && r < 0xa0:
		return -1
	}
	return r
}
