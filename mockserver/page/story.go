package page

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/phxworker/phxworker/mockserver"
	"github.com/phxworker/phxworker/mockserver/place"
)

// story is what the events of a run come to, for a person.
type story struct {
	Steps []*step
	Log   []line // of the run itself, outside of its steps
	// Refused are the events that did not count, and why.
	Refused []refusal
	Moments []moment

	jobs   map[string]job    // by id
	steps  map[string]*step  // by id
	clips  map[string]string // what is in a dataclip, by its id
	origin map[string]string // which step made it
	begin  time.Time

	globals bool // the plan has some
}

// job is what the plan has of a job.
type job struct{ ID, Name, Adaptor, Body string }

// step is one execution of a job.
type step struct {
	Number         int
	Name           string // of its job, or the job's id
	Job            job
	Reason         string // empty while it goes on
	Error          string
	Started, Ended time.Time
	Input, Output  string
	From           string // where the input is from
	Log            []line
	Code           []codeLine // the job's; nil unless an error in it was found

	finder place.Finder // of the error
}

// codeLine is a line of a job.
type codeLine struct {
	Number int
	Text   string
	Wrong  bool // the error is here
}

// line is a line of the log.
type line struct {
	At                  time.Time
	Level, Source, Text string
}

type refusal struct {
	At             time.Time
	Event, Problem string
}

// moment is something on the time line.
type moment struct {
	At    time.Time
	Until time.Time // zero for what has no length
	Tone  string
	Mark  string
	Text  string
	// X and Width are where it is drawn, in thousandths of the whole.
	X, Width float64
	After    time.Duration // since the run was queued
}

// payload is what events have that is shown.
type payload struct {
	StepID     string          `json:"step_id"`
	JobID      string          `json:"job_id"`
	InputID    string          `json:"input_dataclip_id"`
	OutputID   string          `json:"output_dataclip_id"`
	Output     json.RawMessage `json:"output_dataclip"`
	Reason     string          `json:"reason"`
	ErrorType  string          `json:"error_type"`
	Error      string          `json:"error_message"`
	Message    json.RawMessage `json:"message"`
	Level      string          `json:"level"`
	Source     string          `json:"source"`
	Logs       []payload       `json:"logs"`
	FinalState json.RawMessage `json:"final_state"`
}

const (
	// maxLines is how many lines of log are shown of a step, and of a run how many refusals and faults.
	maxLines = 500
	// maxValue is how much is shown of an input or an output, in bytes.
	maxValue = 32 << 10
)

func tell(record mockserver.RunRecord, now time.Time) *story {
	s := &story{
		jobs: make(map[string]job), steps: make(map[string]*step), clips: make(map[string]string), origin: make(map[string]string),
		begin: record.EnqueuedAt,
	}
	var plan struct {
		DataclipID string `json:"dataclip_id"`
		Jobs       []job  `json:"jobs"`
		Globals    any    `json:"globals"`
	}
	_ = json.Unmarshal(record.Plan, &plan) // what is odd in it is shown as far as it can be read
	s.globals = plan.Globals != nil
	for _, j := range plan.Jobs {
		s.jobs[j.ID] = j
	}
	s.clips[plan.DataclipID], s.origin[plan.DataclipID] = pretty(record.Input), "the run's input"
	for _, e := range record.Events {
		s.event(e)
	}
	s.timeLine(record, now)
	return s
}

func (s *story) event(e mockserver.Event) {
	if e.Status != "ok" {
		s.refuse(refusal{At: e.At, Event: e.Event, Problem: cmp.Or(e.Crash, string(e.Response))})
		return
	}
	var p payload
	_ = json.Unmarshal(e.Payload, &p) // it was taken, so what is read here is well-formed
	switch e.Event {
	case "step:start":
		j, known := s.jobs[p.JobID]
		if !known {
			j.ID = p.JobID
		}
		st := &step{Number: len(s.Steps) + 1, Name: cmp.Or(j.Name, j.ID), Job: j, Started: e.At, Input: s.clips[p.InputID], From: s.origin[p.InputID]}
		st.finder = place.Finder{Job: j.ID, Code: j.Body, Globals: s.globals}
		s.Steps, s.steps[p.StepID] = append(s.Steps, st), st
	case "step:complete":
		st := s.steps[p.StepID]
		if st == nil {
			return
		}
		st.Ended, st.Reason, st.Output = e.At, p.Reason, pretty(p.Output)
		if p.ErrorType != "" || p.Error != "" {
			st.Error = p.ErrorType + ": " + strings.TrimPrefix(p.Error, p.ErrorType+": ")
			st.Code = st.marked(p.Output)
		}
		if p.OutputID != "" {
			s.clips[p.OutputID], s.origin[p.OutputID] = st.Output, "the output of "+st.Name
		}
	case "run:log":
		s.line(e.At, p)
	case "run:batch_logs":
		for _, p := range p.Logs {
			s.line(e.At, p)
		}
	}
}

func (s *story) refuse(r refusal) {
	switch {
	case len(s.Refused) < maxLines:
		s.Refused = append(s.Refused, r)
	case len(s.Refused) == maxLines:
		s.Refused = append(s.Refused, refusal{At: r.At, Event: "PAGE", Problem: fmt.Sprintf("there are more than these %d: GET /run/ID has all", maxLines)})
	}
}

func (s *story) line(at time.Time, p payload) {
	l := line{At: at, Level: cmp.Or(p.Level, "info"), Source: p.Source, Text: message(p.Message)}
	log := &s.Log
	if st := s.steps[p.StepID]; st != nil {
		log = &st.Log
		st.finder.Read(l.Source, l.Text)
	}
	switch {
	case len(*log) < maxLines:
		*log = append(*log, l)
	case len(*log) == maxLines:
		*log = append(*log, line{At: at, Level: "warn", Source: "PAGE", Text: fmt.Sprintf("there are more than these %d lines: GET /run/ID has all", maxLines)})
	}
}

// marked returns the job's code with the line of the error; nil if the engine did not tell it.
func (st *step) marked(output json.RawMessage) (code []codeLine) {
	at, found := st.finder.Find(output)
	if !found {
		return nil
	}
	for i, text := range strings.Split(st.Job.Body, "\n") {
		code = append(code, codeLine{Number: i + 1, Text: text, Wrong: i+1 == at.Line})
	}
	return code
}

// Took returns how long the step took, empty while it goes on.
func (st *step) Took() string {
	if st.Ended.IsZero() {
		return ""
	}
	return short(st.Ended.Sub(st.Started))
}

// Tone sorts the reason for the eye.
func (st *step) Tone() string {
	switch st.Reason {
	case "":
		return "busy"
	case "success":
		return "good"
	case "fail", "cancel":
		return "attention"
	}
	return "bad"
}

// Mark is the reason as a sign.
func (st *step) Mark() string {
	return map[string]string{"busy": "▸", "good": "✓"}[st.Tone()] + map[bool]string{true: "✗"}[st.Tone() == "bad" || st.Tone() == "attention"]
}

// timeLine puts what happened in order, and says where to draw it.
func (s *story) timeLine(r mockserver.RunRecord, now time.Time) {
	add := func(at time.Time, tone, mark, text string) {
		if !at.IsZero() {
			s.Moments = append(s.Moments, moment{At: at, Tone: tone, Mark: mark, Text: text})
		}
	}
	add(r.EnqueuedAt, "waiting", "·", "queued in "+r.Queue)
	if len(r.Owners) == 0 {
		add(r.ClaimedAt, "busy", "▸", "claimed by "+cmp.Or(r.WorkerName, r.Worker)+", group "+r.Group)
		add(r.JoinedAt, "busy", "▸", "its topic was joined")
	}
	for _, o := range r.Owners {
		add(o.ClaimedAt, "busy", "▸", fmt.Sprintf("attempt %d: claimed by %s", o.Attempt, cmp.Or(o.WorkerName, o.Worker)))
		add(o.JoinedAt, "busy", "▸", "its topic was joined")
		if o.End != mockserver.Completed {
			add(o.EndedAt, "bad", "✗", strings.TrimSpace("taken from "+cmp.Or(o.WorkerName, o.Worker)+": "+strings.ReplaceAll(string(o.End), "_", " ")+" "+o.ReleaseReason))
		}
	}
	add(r.StartedAt, "busy", "▸", "started")
	for _, st := range s.Steps {
		until := st.Ended
		if until.IsZero() {
			until = cmp.Or(r.FinishedAt, now)
		}
		s.Moments = append(s.Moments, moment{At: st.Started, Until: until, Tone: st.Tone(), Mark: st.Mark(), Text: "step " + st.Name})
	}
	for i, f := range r.Faults[:min(len(r.Faults), maxLines+1)] {
		text := fmt.Sprintf("fault %d struck %s: %s, %s", f.Rule, f.Event, f.Action, f.When)
		if i == maxLines {
			text = fmt.Sprintf("faults struck %d times more: GET /run/ID has all", len(r.Faults)-maxLines)
		}
		add(f.At, "attention", "⚡", text)
	}
	if r.State.Final() {
		add(r.FinishedAt, tone(r.State), mark(r.State), "ended: "+cmp.Or(r.Reason, string(r.State)))
	}
	slices.SortStableFunc(s.Moments, func(a, b moment) int { return a.At.Compare(b.At) })
	whole := cmp.Or(r.FinishedAt, now).Sub(s.begin).Seconds()
	for i := range s.Moments {
		m := &s.Moments[i]
		m.After = m.At.Sub(s.begin)
		if whole > 0 {
			m.X = min(max(1000*m.After.Seconds()/whole, 0), 995)
			m.Width = 5
			if !m.Until.IsZero() {
				m.Width = max(1000*m.Until.Sub(m.At).Seconds()/whole, m.Width)
			}
		}
	}
}

// pretty indents JSON, also if it is in a text as OpenFn's worker sends it, and cuts what is too much to look at.
func pretty(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil && json.Valid([]byte(text)) {
		raw = json.RawMessage(text)
	}
	var out bytes.Buffer
	if json.Indent(&out, raw, "", "  ") != nil {
		return cut(string(raw))
	}
	return cut(out.String())
}

func cut(text string) string {
	if len(text) <= maxValue {
		return text
	}
	return strings.ToValidUTF8(text[:maxValue], "") + fmt.Sprintf("\n… %d bytes more: GET /run/ID has all", len(text)-maxValue)
}

// message returns what a line of a log says: texts as they are, everything else as JSON.
func message(raw json.RawMessage) string {
	var parts []json.RawMessage
	if json.Unmarshal(raw, &parts) != nil {
		parts = []json.RawMessage{raw}
	}
	words := make([]string, len(parts))
	for i, part := range parts {
		if json.Unmarshal(part, &words[i]) != nil {
			words[i] = string(part)
		}
	}
	return strings.Join(words, " ")
}
