package lightning

import (
	"github.com/phxworker/phxworker/mockserver/phoenix"
)

func (s *Service) startStepLocked(r *run, c *changeset) phoenix.Reply {
	c.require("step_id", "job_id")
	step, job, input := c.uuid("step_id"), c.str("job_id"), c.str("input_dataclip_id")
	c.timestamp()
	if c.valid() && !r.jobs[job] {
		c.fail("job_id", msgNotExist)
	}
	if input != "" && !s.knownDataclipLocked(r, input) {
		c.fail("input_dataclip_id", msgNotExist)
	}
	if _, taken := r.steps[step]; c.valid() && taken {
		c.fail("id", msgTaken)
	}
	if !c.valid() {
		return phoenix.Refuse(c.response())
	}
	if r.steps == nil {
		r.steps = make(map[string]bool)
	}
	r.steps[step] = false
	return stepReply(step)
}

// completeStep records a step's end and its output. The output and its id come
// together, unless outputs are not kept anyway.
func (r *run) completeStep(c *changeset, form Dataclips) phoenix.Reply {
	c.require("step_id", "reason")
	step, clip := c.uuid("step_id"), c.uuid("output_dataclip_id")
	c.str("reason")
	c.str("error_type")
	c.str("error_message")
	c.timestamp()
	if !r.erase && c.absent("output_dataclip") != c.absent("output_dataclip_id") {
		c.require("output_dataclip", "output_dataclip_id")
	}
	if crash, dead := form.cast(c); dead {
		return crash
	}
	if c.valid() {
		complete, started := r.steps[step]
		_, taken := r.outputs[clip]
		switch {
		case !started:
			c.fail("step_id", "not found")
		case complete, taken:
			c.fail("id", msgTaken)
		}
	}
	if !c.valid() {
		return phoenix.Refuse(c.response())
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
func (s *Service) knownDataclipLocked(r *run, id string) bool {
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
