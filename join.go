package phxworker

import (
	"bytes"
	"encoding/json"

	"github.com/phxworker/phxworker/channel/extension"
	"github.com/phxworker/phxworker/slots"
)

// joinPayload is what the server is told at each join of the queue: the slots that
// the pools have by then, and what the worker can do beyond the protocol.
type joinPayload struct {
	pools []*slots.Pool
	set   *extension.Set
}

func (p joinPayload) MarshalJSON() ([]byte, error) {
	groups := make([]slots.Group, len(p.pools))
	for i, pool := range p.pools {
		groups[i] = pool.Group()
		groups[i].Slots = pool.Counts().Size
	}
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false) // so that "manual>*" looks as it does everywhere else
	err := encoder.Encode(struct {
		slots.JoinPayload

		Extensions map[string]int `json:"extensions,omitempty"`
	}{slots.NewJoinPayload(groups), p.set.Offer(queueExtensions...)})
	return b.Bytes(), err
}
