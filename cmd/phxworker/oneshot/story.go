package oneshot

import (
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/phxworker/phxworker/mockserver"
	"github.com/phxworker/phxworker/mockserver/place"
)

// Story tells a person how a run goes: steps as they end, lines of its jobs as they come, and what went wrong with the
// line of the job. It is used by one goroutine.
type Story struct {
	Out io.Writer
	// Names are those of the jobs, and Code what is in them, by id.
	Names, Code map[string]string
	// Globals reports whether the plan has globals.
	Globals bool

	steps  map[string]string // the ids of jobs, by those of steps
	finder place.Finder      // of the running step's error
}

// payload is what the events of a run have that is shown.
type payload struct {
	StepID    string            `json:"step_id"`
	JobID     string            `json:"job_id"`
	Message   []json.RawMessage `json:"message"`
	Source    string            `json:"source"`
	Level     string            `json:"level"`
	Reason    string            `json:"reason"`
	ErrorType string            `json:"error_type"`
	Error     string            `json:"error_message"`
	Duration  *float64          `json:"duration"` // ms
	Output    json.RawMessage   `json:"output_dataclip"`
	Versions  map[string]any    `json:"versions"`
}

// Show tells of one event.
func (s *Story) Show(e mockserver.Event) {
	var p payload
	if json.Unmarshal(e.Payload, &p) != nil || e.Status != "ok" {
		return
	}
	switch e.Event {
	case "step:start":
		if s.steps == nil {
			s.steps = make(map[string]string)
		}
		s.steps[p.StepID] = p.JobID
		s.finder = place.Finder{Job: p.JobID, Code: s.Code[p.JobID], Globals: s.Globals}
	case "run:log":
		s.line(p)
	case "step:complete":
		s.step(p)
	case "run:complete":
		s.end(p)
	}
}

// line tells what a job, an adaptor or the process of an engine has written, and what the worker warns of or waits for. Of the
// other lines of worker and engine only the place of an error is kept.
func (s *Story) line(p payload) {
	text := message(p.Message)
	s.finder.Read(p.Source, text)
	if !place.OfJob(p.Source) && p.Level != "warn" && !installs(p.Source, text) {
		return
	}
	mark := " "
	if p.Level == "warn" || p.Level == "error" {
		mark = "!"
	}
	for line := range strings.SplitSeq(text, "\n") {
		fmt.Fprintf(s.Out, "  %s %s\n", mark, line)
	}
}

// installs reports whether a line is about an adaptor that the run waits for.
func installs(source, text string) bool {
	return source == "RTE" && (strings.HasPrefix(text, "Installing ") || strings.HasPrefix(text, "Another worker installs "))
}

func (s *Story) step(p payload) {
	took := ""
	if p.Duration != nil {
		took = "  " + (time.Duration(*p.Duration) * time.Millisecond).String()
	}
	if p.Reason == "success" {
		fmt.Fprintf(s.Out, "✓ %s%s\n", s.name(p.JobID), took)
		return
	}
	fmt.Fprintf(s.Out, "✗ %s%s\n", s.name(p.JobID), took)
	at, _ := s.finder.Find(p.Output)
	s.wrong(p, s.Code[p.JobID], at)
}

// end tells how the run ended. What a step has told of an error is not told again.
func (s *Story) end(p payload) {
	fmt.Fprintln(s.Out, p.Reason)
	if p.Reason != "success" && len(s.steps) == 0 {
		job, at := s.compiled(p.Error)
		s.wrong(p, s.Code[job], at)
	}
}

// wrong tells an error, and the line of the job that it is in.
func (s *Story) wrong(p payload, code string, at place.Place) {
	fmt.Fprintf(s.Out, "  %s: %s\n", p.ErrorType, strings.TrimPrefix(p.Error, p.ErrorType+": "))
	lines := strings.Split(code, "\n")
	if at.Line < 1 || at.Line > len(lines) {
		return
	}
	line := strings.ReplaceAll(lines[at.Line-1], "\t", " ")
	number := strconv.Itoa(at.Line)
	fmt.Fprintf(s.Out, "  %s | %s\n", number, line)
	if at.Column >= 1 && at.Column <= utf8.RuneCountInString(line)+1 {
		fmt.Fprintf(s.Out, "  %s | %s^\n", strings.Repeat(" ", len(number)), strings.Repeat(" ", at.Column-1))
	}
}

func (s *Story) name(job string) string {
	if name := s.Names[job]; name != "" {
		return name
	}
	return job
}

// compiled returns the job that could not be compiled, and where, as the error says it: its name, and the line and the
// column, which is counted from 0.
func (s *Story) compiled(text string) (job string, at place.Place) {
	found := inParentheses.FindStringSubmatch(text)
	if found == nil {
		return "", place.Place{}
	}
	for id, name := range s.Names {
		if strings.HasPrefix(text, name+": ") {
			line, _ := strconv.Atoi(found[1]) // digits alone: one that is too large is in no job
			column, _ := strconv.Atoi(found[2])
			return id, place.Place{Line: line, Column: column + 1}
		}
	}
	return "", place.Place{}
}

var inParentheses = regexp.MustCompile(`\((\d+):(\d+)\)$`)

// message returns what a line of a log says: texts as they are, everything else as JSON.
func message(parts []json.RawMessage) string {
	words := make([]string, len(parts))
	for i, part := range parts {
		if json.Unmarshal(part, &words[i]) != nil {
			words[i] = string(part)
		}
	}
	return strings.Join(words, " ")
}
