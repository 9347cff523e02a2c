package lightning

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/phxworker/phxworker/mockserver/phoenix"
)

// agreed has the extensions that server and client have both named, for one join
// of one topic. It does not change.
type agreed map[string]bool

// terms is what the server says of one extension in the reply to a join.
type terms struct {
	V          int   `json:"v"`
	DurationMS int64 `json:"duration_ms,omitempty"`
	MaxWaitMS  int64 `json:"max_wait_ms,omitempty"`
	IntervalMS int64 `json:"interval_ms,omitempty"`
	TimeoutMS  int64 `json:"timeout_ms,omitempty"`
}

// agree reads what a join offers, and returns what of it belongs to the topic and
// is announced, with the reply that says so. To who offers nothing it is the
// reply of a Lightning that knows none.
func (x *extended) agree(payload []byte, topic []string) (agreed, phoenix.Reply) {
	var offer struct {
		Extensions map[string]json.RawMessage `json:"extensions"`
	}
	_ = json.Unmarshal(payload, &offer) // whatever it is, the client is let in
	var with agreed
	reply := make(map[string]terms)
	for _, name := range topic {
		var version int
		if json.Unmarshal(offer.Extensions[name], &version) != nil || version < 1 || !slices.Contains(x.cfg.Names, name) {
			continue
		}
		if with == nil {
			with = make(agreed)
		}
		with[name], reply[name] = true, x.terms(name)
	}
	if with == nil {
		return nil, phoenix.OK([]byte(`{}`))
	}
	b, _ := json.Marshal(map[string]any{extensionsKey: reply}) // numbers always encode
	return with, phoenix.OK(b)
}

func (x *extended) terms(name string) terms {
	t := terms{V: 1}
	switch name {
	case extLease:
		t.DurationMS = ms(x.cfg.Lease)
	case extLongPoll:
		t.MaxWaitMS = ms(x.cfg.MaxWait)
	case extClaimAck:
		t.TimeoutMS = ms(x.cfg.ClaimAck)
	case extStatus:
		t.IntervalMS, t.TimeoutMS = ms(x.cfg.StatusInterval), ms(x.cfg.StatusTimeout)
	}
	return t
}

func ms(d time.Duration) int64 { return d.Milliseconds() }
