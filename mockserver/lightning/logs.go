package lightning

import (
	"encoding/json"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/phxworker/phxworker/mockserver/phoenix"
)

var logLevels = []string{"success", "always", "info", "warn", "error", "debug"}

const maxSource = 8 // characters

func (r *run) log(c *changeset) phoenix.Reply {
	if !r.checkLine(c) {
		return phoenix.Refuse(c.response())
	}
	return logged()
}

// logBatch takes all lines or none: the faults of the first bad line are the answer.
func (r *run) logBatch(c *changeset) phoenix.Reply {
	raw, ok := c.fields["logs"]
	if !ok {
		return phoenix.Crash("logs is missing")
	}
	var lines []json.RawMessage
	if json.Unmarshal(raw, &lines) != nil {
		return phoenix.Crash("logs must be a list")
	}
	for _, raw := range lines {
		line := newChangeset(raw)
		if line == nil {
			return phoenix.Crash("a log line must be an object")
		}
		if !r.checkLine(line) {
			return phoenix.Refuse(line.response())
		}
	}
	return phoenix.OK(nil)
}

// checkLine validates a line. Its message may be any JSON but null, its level
// defaults to info.
func (r *run) checkLine(c *changeset) bool {
	if raw, ok := c.fields["message"]; !ok || string(raw) == "null" {
		c.fail("message", msgBlank)
	}
	c.require("timestamp")
	c.timestamp()
	c.oneOf("level", logLevels)
	if utf8.RuneCountInString(c.str("source")) > maxSource {
		c.fail("source", "should be at most 8 character(s)")
	}
	if step := c.uuid("step_id"); step != "" && c.valid() {
		if _, ok := r.steps[step]; !ok {
			c.fail("step_id", "must be associated with the run")
		}
	}
	return c.valid()
}

func logged() phoenix.Reply {
	return phoenix.OK([]byte(`{"log_line_id":"` + uuid.NewString() + `"}`))
}
