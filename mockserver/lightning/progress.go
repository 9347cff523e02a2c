package lightning

import (
	"bytes"
	"encoding/json"
	"time"

	"github.com/phxworker/phxworker/mockserver/phoenix"
)

// startLocked takes run:start, also a second time: then the run's time begins
// anew, as it does in Lightning.
func (s *Service) startLocked(r *run, c *changeset) phoenix.Reply {
	c.timestamp()
	if r.state.Final() {
		c.fail("state", msgCompleted)
	}
	if !c.valid() {
		return phoenix.Refuse(c.response())
	}
	r.state, r.started = Started, time.Now()
	return phoenix.OK(nil)
}

// completeLocked takes run:complete, also without a run:start before it. The
// worker's reason becomes the state.
func (s *Service) completeLocked(r *run, c *changeset) phoenix.Reply {
	if r.state.Final() {
		c.fail("state", msgCompleted)
		return phoenix.Refuse(c.response())
	}
	res := Result{
		Reason: c.str("reason"), ErrorType: c.str("error_type"), ErrorMessage: c.str("error_message"),
		FinalDataclipID: c.str("final_dataclip_id"),
	}
	c.timestamp()
	state, ok := stateOf[res.Reason]
	switch {
	case c.absent("reason"):
		c.fail("state", msgBlank)
	case !ok:
		delete(c.errors, "reason") // the reason is the state under another name
		c.fail("state", msgInvalid)
	}
	if !c.valid() {
		return phoenix.Refuse(c.response())
	}
	final := c.fields["final_state"]
	switch {
	case res.FinalDataclipID != "":
		if !s.knownDataclipLocked(r, res.FinalDataclipID) {
			return phoenix.Refuse(nestedResponse("final_dataclip_id", msgNotExist))
		}
	case !isObject(final) && !isNull(final):
		return phoenix.Refuse(nestedResponse("final_state", msgInvalid))
	}
	if !isNull(final) {
		res.FinalState = bytes.Clone(final)
	}
	s.finishLocked(r, state, res)
	return phoenix.OK(nil)
}

func isNull(raw json.RawMessage) bool { return len(raw) == 0 || string(raw) == "null" }

func isObject(raw json.RawMessage) bool { return len(raw) > 0 && raw[0] == '{' }
