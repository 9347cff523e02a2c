package lightning

import "github.com/phxworker/phxworker/mockserver/phoenix"

// inputLocked returns the run's input, whatever dataclip was asked for: a run has
// one input, and Lightning does not look at the id either.
func (s *Service) inputLocked(r *run) []byte {
	body := r.dataclip
	if body == nil {
		body = s.dataclips[r.input]
	}
	if s.cfg.WipeDataclips {
		if s.ext != nil && body != nil {
			r.tenure.wiped = body // another owner may need it
		}
		r.dataclip = nil
		delete(s.dataclips, r.input)
	}
	if body == nil {
		return []byte("null")
	}
	return body
}

func (s *Service) credentialLocked(r *run, c *changeset) phoenix.Reply {
	id := c.str("id")
	if id == "" {
		return phoenix.Refuse(nestedResponse("id", msgBlank))
	}
	body, ok := r.credentials[id]
	if !ok {
		body, ok = s.credentials[id]
	}
	if !ok {
		return phoenix.Refuse(nestedResponse("id", "Credential not found!"))
	}
	return phoenix.OK(body)
}
