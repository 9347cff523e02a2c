package lightning

import (
	"bytes"
	"encoding/json"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/phxworker/phxworker/mockserver/changeset"
	"github.com/phxworker/phxworker/mockserver/phoenix"
)

// inputLocked returns the run's input, whatever dataclip was asked for: a run has
// one input, and Lightning does not look at the id either.
func (s *Service) inputLocked(r *Entry) []byte {
	body := r.dataclip
	if body == nil {
		body = s.dataclips[r.input]
	}
	if r.wiped {
		body = nil
	} else if s.cfg.WipeDataclips {
		r.dataclip, r.wiped = body, true // kept for a worker that is given the run anew
		delete(s.dataclips, r.input)
	}
	if body == nil {
		return []byte("null")
	}
	return body
}

func (s *Service) credentialLocked(r *Entry, c *changeset.Changeset) phoenix.Reply {
	id := c.Str("id")
	if id == "" {
		return phoenix.Refuse(changeset.Nested("id", changeset.Blank))
	}
	body, ok := r.credentials[id]
	if !ok {
		body, ok = s.credentials[id]
	}
	if !ok {
		return phoenix.Refuse(changeset.Nested("id", "Credential not found!"))
	}
	return phoenix.OK(body)
}

// startLocked takes run:start, also a second time: then the run's time begins
// anew, as it does in Lightning.
func (s *Service) startLocked(r *Entry, c *changeset.Changeset) phoenix.Reply {
	c.Timestamp()
	if r.state.Final() {
		c.Fail("state", changeset.Completed)
	}
	if !c.Valid() {
		return phoenix.Refuse(c.Response())
	}
	r.state, r.started = Started, time.Now()
	s.tellLocked(r)
	return phoenix.OK(nil)
}

// completeLocked takes run:complete, also without a run:start before it. The
// worker's reason becomes the state.
func (s *Service) completeLocked(r *Entry, c *changeset.Changeset) phoenix.Reply {
	if r.state.Final() {
		c.Fail("state", changeset.Completed)
		return phoenix.Refuse(c.Response())
	}
	res := Result{
		Reason: c.Str("reason"), ErrorType: c.Str("error_type"), ErrorMessage: c.Str("error_message"),
		FinalDataclipID: c.Str("final_dataclip_id"),
	}
	c.Timestamp()
	state, ok := stateOf[res.Reason]
	switch {
	case c.Absent("reason"):
		c.Fail("state", changeset.Blank)
	case !ok:
		delete(c.Errors, "reason") // the reason is the state under another name
		c.Fail("state", changeset.Invalid)
	}
	if !c.Valid() {
		return phoenix.Refuse(c.Response())
	}
	final := c.Fields["final_state"]
	switch {
	case res.FinalDataclipID != "":
		if !s.knownDataclipLocked(r, res.FinalDataclipID) {
			return phoenix.Refuse(changeset.Nested("final_dataclip_id", changeset.NotExist))
		}
	case !isObject(final) && !isNull(final):
		return phoenix.Refuse(changeset.Nested("final_state", changeset.Invalid))
	}
	if !isNull(final) {
		res.FinalState = bytes.Clone(final)
	}
	s.finishLocked(r, state, res)
	return phoenix.OK(nil)
}

func isNull(raw json.RawMessage) bool { return len(raw) == 0 || string(raw) == "null" }

func isObject(raw json.RawMessage) bool { return len(raw) > 0 && raw[0] == '{' }

func (s *Service) startStepLocked(r *Entry, c *changeset.Changeset) phoenix.Reply {
	c.Require("step_id", "job_id")
	step, job, input := c.UUID("step_id"), c.Str("job_id"), c.Str("input_dataclip_id")
	c.Timestamp()
	if c.Valid() && !r.jobs[job] {
		c.Fail("job_id", changeset.NotExist)
	}
	if input != "" && !s.knownDataclipLocked(r, input) {
		c.Fail("input_dataclip_id", changeset.NotExist)
	}
	if _, taken := r.steps[step]; c.Valid() && taken {
		c.Fail("id", changeset.Taken)
	}
	if !c.Valid() {
		return phoenix.Refuse(c.Response())
	}
	if r.steps == nil {
		r.steps = make(map[string]bool)
	}
	r.steps[step] = false
	return stepReply(step)
}

// completeStep records a step's end and its output. The output and its id come
// together, unless outputs are not kept anyway.
func (r *Entry) completeStep(c *changeset.Changeset, form Dataclips) phoenix.Reply {
	c.Require("step_id", "reason")
	step, clip := c.UUID("step_id"), c.UUID("output_dataclip_id")
	c.Str("reason")
	c.Str("error_type")
	c.Str("error_message")
	c.Timestamp()
	if !r.erase && c.Absent("output_dataclip") != c.Absent("output_dataclip_id") {
		c.Require("output_dataclip", "output_dataclip_id")
	}
	if crash, dead := form.cast(c); dead {
		return crash
	}
	if c.Valid() {
		complete, started := r.steps[step]
		_, taken := r.outputs[clip]
		switch {
		case !started:
			c.Fail("step_id", "not found")
		case complete, taken:
			c.Fail("id", changeset.Taken)
		}
	}
	if !c.Valid() {
		return phoenix.Refuse(c.Response())
	}
	r.steps[step] = true
	if clip != "" {
		if r.outputs == nil {
			r.outputs = make(map[string]struct{})
		}
		r.outputs[clip] = struct{}{}
	}
	return stepReply(step)
}

// knownDataclipLocked reports whether an event may refer to a dataclip: the run's
// input, an output the run has reported, or one that was added.
func (s *Service) knownDataclipLocked(r *Entry, id string) bool {
	if id == r.input {
		return true
	}
	if _, ok := r.outputs[id]; ok {
		return true
	}
	_, ok := s.dataclips[id]
	return ok
}

func stepReply(id string) phoenix.Reply {
	return phoenix.OK([]byte(`{"step_id":"` + id + `"}`))
}

var logLevels = []string{"success", "always", "info", "warn", "error", "debug"}

const maxSource = 8 // characters

func (r *Entry) log(c *changeset.Changeset) phoenix.Reply {
	if !r.checkLine(c) {
		return phoenix.Refuse(c.Response())
	}
	return logged()
}

// logBatch takes all lines or none: the faults of the first bad line are the answer.
func (r *Entry) logBatch(c *changeset.Changeset) phoenix.Reply {
	raw, ok := c.Fields["logs"]
	if !ok {
		return phoenix.Crash("logs is missing")
	}
	var lines []json.RawMessage
	if json.Unmarshal(raw, &lines) != nil {
		return phoenix.Crash("logs must be a list")
	}
	for _, raw := range lines {
		line := changeset.New(raw)
		if line == nil {
			return phoenix.Crash("a log line must be an object")
		}
		if !r.checkLine(line) {
			return phoenix.Refuse(line.Response())
		}
	}
	return phoenix.OK(nil)
}

// checkLine validates a line. Its message may be any JSON but null, its level
// defaults to info.
func (r *Entry) checkLine(c *changeset.Changeset) bool {
	if raw, ok := c.Fields["message"]; !ok || string(raw) == "null" {
		c.Fail("message", changeset.Blank)
	}
	c.Require("timestamp")
	c.Timestamp()
	c.OneOf("level", logLevels)
	if utf8.RuneCountInString(c.Str("source")) > maxSource {
		c.Fail("source", "should be at most 8 character(s)")
	}
	if step := c.UUID("step_id"); step != "" && c.Valid() {
		if _, ok := r.steps[step]; !ok {
			c.Fail("step_id", "must be associated with the run")
		}
	}
	return c.Valid()
}

func logged() phoenix.Reply {
	return phoenix.OK([]byte(`{"log_line_id":"` + uuid.NewString() + `"}`))
}
