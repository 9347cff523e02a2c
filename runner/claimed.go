package runner

import (
	"encoding/json"
	"log/slog"
	"time"

	"github.com/phxworker/phxworker/channel/extension"
)

// Claimed is a run as the server gave it.
type Claimed struct {
	ID string
	// Token opens the run's topic.
	Token string
	// At is when the server's reply came. Defaults to now.
	At time.Time
	// Lease is how long the run is this worker's, from At on, unless it is renewed. Zero
	// is for ever.
	Lease time.Duration
	// Attempt is how often the run was given away, this time included; 0 when the
	// server does not tell.
	Attempt int
	// Begin, unless nil, holds the run back once its plan is there: it receives nil
	// when the run may go on, and an error to end it as an engine's would.
	Begin <-chan error
	// Labels are on every line about the run that is logged, besides its id.
	Labels []slog.Attr
}

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
