package extended

import (
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

// Config are the options of the extended mode; the zero value has all extensions.
type Config struct {
	// Names are those that are announced to clients which offer them. Defaults
	// to all.
	Names []string
	// Lease is for how long a claim or a renewal is good. Defaults to 20 minutes.
	Lease time.Duration
	// ClaimAck is how long the worker may take from the claim to the join of the
	// run's topic. Defaults to 20 s.
	ClaimAck time.Duration
	// StatusInterval is how often workers are asked to send their status.
	// Defaults to 15 s.
	StatusInterval time.Duration
	// StatusTimeout is how long a worker may be silent. Defaults to 30 s.
	StatusTimeout time.Duration
	// MaxWait is how long a claim waits for a run at most. Defaults to 20 s.
	MaxWait time.Duration
	// AffinityWait is how long a run with a key waits for the worker that it
	// belongs to, before any worker may have it. Defaults to 10 s.
	AffinityWait time.Duration
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
	for _, d := range []struct {
		value *time.Duration
		or    time.Duration
	}{
		{&c.Lease, 20 * time.Minute},
		{&c.ClaimAck, 20 * time.Second},
		{&c.StatusInterval, 15 * time.Second},
		{&c.StatusTimeout, 30 * time.Second},
		{&c.MaxWait, 20 * time.Second},
		{&c.AffinityWait, 10 * time.Second},
	} {
		if *d.value <= 0 {
			*d.value = d.or
		}
	}
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
