// Package terms is what a worker and a server have agreed on about a run, beyond Lightning's protocol: the extensions
// of docs/extensions that concern one run. It knows neither engines nor how events are delivered.
//
// A [Terms] is made once for a worker. Of each run it is asked four things, by whoever takes the run to its end:
//
//   - [Terms.JoinPayload] offers the extensions at each join of the run's topic.
//   - [Terms.Keep] renews the run's [Lease], which says before each event whether the run is
//     still this worker's (lease.go).
//   - [Terms.Listen] hears what the server has to say to the run: that it is cancelled, or a
//     notice for its engine (listen.go).
//   - [Terms.Return] returns the run to the queue (release.go).
//
// Where nothing was agreed on, or a server knows no extensions, Keep and Listen do nothing, and Return reports that
// the run was not taken back: every extension has a fallback, and here it is to go on without it.
package terms

import (
	"encoding/json"
	"sync/atomic"

	"github.com/phxworker/phxworker/channel/extension"
)

// The extensions of a run's topic; see docs/extensions.
const (
	extLease  = "lease"
	extCancel = "cancel"
	extNotify = "notify"
)

// Extensions returns the names of those that only the topic of a run can have.
func Extensions() []string { return []string{extCancel, extNotify} }

// Terms are those that the runs of a worker share. Its methods may be called concurrently.
type Terms struct {
	set      *extension.Set
	releaser Releaser
	Renewed  atomic.Uint64 // leases that were renewed
	Unknown  atomic.Uint64 // pushes of the server that mean nothing here
}

// New returns Terms that offer the extensions of the set, nil for none. A nil releaser returns no runs.
func New(set *extension.Set, releaser Releaser) *Terms { return &Terms{set: set, releaser: releaser} }

// JoinPayload returns the payload for the topic of a run with this token. It is made anew at each join: what is
// offered may have changed.
func (t *Terms) JoinPayload(token string) json.Marshaler { return joinPayload{token, t.set} }

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
