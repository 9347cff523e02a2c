package runner

import (
	"encoding/json"

	"github.com/phxworker/phxworker/channel/extension"
)

// joinPayload is made anew at each join: what is offered may have changed.
type joinPayload struct {
	token string
	set   *extension.Set
}

func (p joinPayload) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Token      string         `json:"token"`
		Extensions map[string]int `json:"extensions,omitempty"`
	}{p.token, p.set.Offer(extLease, extCancel, extNotify)})
}

// Extensions returns the names of those that only the topic of a run can have.
func Extensions() []string { return []string{extCancel, extNotify} }

// The extensions of a run's topic; see docs/extensions.
const (
	extLease  = "lease"
	extCancel = "cancel"
	extNotify = "notify"
)
