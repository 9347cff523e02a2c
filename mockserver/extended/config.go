package extended

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/phxworker/phxworker/mockserver/phoenix"
)

// The extensions: what the extended mode knows beyond Lightning's protocol.
const (
	extLease      = "lease"
	extRelease    = "release"
	extAttempt    = "attempt"
	extLongPoll   = "longpoll"
	extClaimAck   = "claim_ack"
	extStatus     = "status"
	extDrain      = "drain"
	extCancel     = "cancel"
	extNotify     = "notify"
	extensionsKey = "extensions" // the key in a join's payload, and in its reply
)

// Which topics have which. The lease belongs to both.
var (
	queueExtensions = []string{extLease, extRelease, extAttempt, extLongPoll, extClaimAck, extStatus, extDrain}
	runExtensions   = []string{extLease, extCancel, extNotify}
)

// Names returns the names of all extensions.
func Names() []string {
	return append(slices.Clone(queueExtensions), extCancel, extNotify)
}

// Config are the options of the extended mode: those of the same names in
// [github.com/phxworker/phxworker/mockserver.Config], where they are described, with the same
// defaults. Names are the extensions that are announced.
type Config struct {
	Names                                                                 []string
	Lease, ClaimAck, StatusInterval, StatusTimeout, MaxWait, AffinityWait time.Duration
}

func (c Config) withDefaults() (Config, error) {
	if c.Names == nil {
		c.Names = Names()
	}
	for _, name := range c.Names {
		if !slices.Contains(Names(), name) {
			return c, fmt.Errorf("there is no extension %q: they are %s", name, strings.Join(Names(), ", "))
		}
	}
	c.Lease = cmp.Or(max(c.Lease, 0), 20*time.Minute)
	c.ClaimAck = cmp.Or(max(c.ClaimAck, 0), 20*time.Second)
	c.StatusInterval = cmp.Or(max(c.StatusInterval, 0), 15*time.Second)
	c.StatusTimeout = cmp.Or(max(c.StatusTimeout, 0), 30*time.Second)
	c.MaxWait = cmp.Or(max(c.MaxWait, 0), 20*time.Second)
	c.AffinityWait = cmp.Or(max(c.AffinityWait, 0), 10*time.Second)
	return c, nil
}

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
func (x *Service) agree(payload []byte, topic []string) (agreed, phoenix.Reply) {
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

func (x *Service) terms(name string) terms {
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
