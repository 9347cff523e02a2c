package lightning

import (
	"fmt"
	"slices"
	"strings"
	"time"
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

// ExtensionNames returns the names of all extensions.
func ExtensionNames() []string {
	return append(slices.Clone(queueExtensions), extCancel, extNotify)
}

// Extensions are the options of the extended mode.
type Extensions struct {
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

func (e Extensions) withDefaults() (Extensions, error) {
	if e.Names == nil {
		e.Names = ExtensionNames()
	}
	for _, name := range e.Names {
		if !slices.Contains(ExtensionNames(), name) {
			return e, fmt.Errorf("there is no extension %q: they are %s", name, strings.Join(ExtensionNames(), ", "))
		}
	}
	for _, d := range []struct {
		value *time.Duration
		or    time.Duration
	}{
		{&e.Lease, 20 * time.Minute},
		{&e.ClaimAck, 20 * time.Second},
		{&e.StatusInterval, 15 * time.Second},
		{&e.StatusTimeout, 30 * time.Second},
		{&e.MaxWait, 20 * time.Second},
		{&e.AffinityWait, 10 * time.Second},
	} {
		if *d.value <= 0 {
			*d.value = d.or
		}
	}
	return e, nil
}
