package web

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"
)

// Status is a worker at one moment, as GET /status shows it. Fields may be added;
// those that are there keep their names and meanings. Texts for people (summary,
// not_ready, error) may change.
type Status struct {
	// Summary is one sentence: whether it claims, or why not.
	Summary string `json:"summary"`
	// Health is "good", "attention" when a person wanted it otherwise or it is
	// new, and "bad" when it cannot work.
	Health Health `json:"health"`
	// Ready is what /readyz tells, and NotReady its reason.
	Ready    bool   `json:"ready"`
	NotReady string `json:"not_ready,omitempty"`
	// Phase is "new", "running", "draining" or "stopped".
	Phase      string     `json:"phase"`
	Connection Connection `json:"connection"`
	Queue      Queue      `json:"queue"`
	Groups     []Group    `json:"groups"`
	// Runs are those under way, the oldest first.
	Runs []Run `json:"runs"`
	// Results are how the last runs ended, 20 at most, the latest first.
	Results []Result `json:"results"`
	// Ended counts the runs that are over, by reason, and Undelivered those of
	// them that the server could not be told the end of.
	Ended       map[string]int `json:"ended"`
	Undelivered int            `json:"undelivered"`
	// GivenBack counts the runs that went back to the server's queue; they are not
	// in Ended.
	GivenBack uint64   `json:"given_back"`
	Delivery  Delivery `json:"delivery"`
	Times     Times    `json:"times"`
	Process   Process  `json:"process"`
}

// Health is how a worker fares.
type Health string

// The values of Health.
const (
	Good      Health = "good"
	Attention Health = "attention"
	Bad       Health = "bad"
)

// Connection is the one that has the queue.
type Connection struct {
	Server string `json:"server,omitempty"` // without a query
	State  string `json:"state"`            // "connecting", "connected" or "closed"; empty before the start
	// Error is why there is no connection, and Attempts how many have failed
	// since the last one.
	Error    string `json:"error,omitempty"`
	Attempts int    `json:"attempts"`
	// Connections counts those made, Lost those lost and dials that failed, by
	// cause.
	Connections int               `json:"connections"`
	Lost        map[string]uint64 `json:"lost"`
	RoundTripMS float64           `json:"round_trip_ms"` // of the latest heartbeat, 0 before the first
	Sockets     int               `json:"sockets"`       // with the further ones for many runs
}

// Queue is the topic that claims are put on.
type Queue struct {
	Joined     bool      `json:"joined"`
	Since      time.Time `json:"since,omitzero"` // since when it is, or is not
	ForSeconds Seconds   `json:"for_seconds"`
}

// Group is a slot group.
type Group struct {
	Name   string   `json:"name"`
	Queues []string `json:"queues"`
	Paused bool     `json:"paused"`
	// OnRequest says that the pause is that of a worker without a loop.
	OnRequest bool   `json:"on_request,omitempty"`
	Slots     int    `json:"slots"`
	Open      int    `json:"open"`
	Claimed   int    `json:"claimed"` // reserved for a claim that is not answered
	Running   int    `json:"running"`
	Claims    Claims `json:"claims"`
	// HeldBack counts claims that were not made because the gate said no.
	HeldBack uint64 `json:"held_back"`
	Wakes    uint64 `json:"wakes"`
	Refused  uint64 `json:"refused"` // runs that were not started because of their token
	// ClaimMS is how long the server took to answer a claim, on average.
	ClaimMS float64 `json:"claim_ms"`
}

// Remark says in words why a group does not claim by itself; empty if it does.
func (g Group) Remark() string {
	switch {
	case g.Slots == 0:
		return "has no slots"
	case g.OnRequest:
		return "claims on request"
	case g.Paused:
		return "paused"
	}
	return ""
}

// Shown returns the groups as people are shown them: while the queue is not joined,
// no claim is under way, and the slots that are reserved for one are as good as open.
func (s Status) Shown() []Group {
	groups := slices.Clone(s.Groups)
	for i := range groups {
		if !s.Queue.Joined {
			groups[i].Open += groups[i].Claimed
			groups[i].Claimed = 0
		}
	}
	return groups
}

// Total is how many claims were made.
func (g Group) Total() uint64 { return g.Claims.Run + g.Claims.Empty + g.Claims.Error }

// Claims counts a group's claims by what they brought.
type Claims struct {
	Run   uint64 `json:"run"`
	Empty uint64 `json:"empty"`
	Error uint64 `json:"error"`
}

// Run is a run under way.
type Run struct {
	ID         string  `json:"id"`
	Group      string  `json:"group"`
	AgeSeconds Seconds `json:"age_seconds"` // since it was claimed
	// Phase is "joining", "loading", "preparing", "executing" or "reporting".
	Phase        string  `json:"phase"`
	PhaseSeconds Seconds `json:"phase_seconds"`
	// Job is the id of the job that is executed; empty between jobs.
	Job            string    `json:"job,omitempty"`
	Started        time.Time `json:"started,omitzero"` // when it began to execute
	Unacknowledged int       `json:"unacknowledged"`   // events that the server has not answered
}

// Doing says in words what a run does now, which answers why it takes so long.
func (r Run) Doing() string {
	doing := r.Phase + " for " + r.PhaseSeconds.String()
	switch r.Phase {
	case "joining":
		doing += ", the server has not let it onto its topic yet"
	case "loading":
		doing += ", fetching plan, dataclip and credentials"
	case "preparing":
		doing += ", getting the adaptors ready"
	}
	if r.Job != "" {
		doing += ", job " + r.Job
	}
	if r.Unacknowledged > 0 {
		doing += ", " + count(r.Unacknowledged, "event") + " unacknowledged"
	}
	return doing
}

// Result is how a run ended. Its error's message is left out: it may quote data.
type Result struct {
	ID          string    `json:"id"`
	Group       string    `json:"group"`
	Reason      string    `json:"reason"` // empty if it ended elsewhere
	ErrorType   string    `json:"error_type,omitempty"`
	TookSeconds Seconds   `json:"took_seconds"` // from the claim
	Ended       time.Time `json:"ended"`
	Undelivered bool      `json:"undelivered,omitempty"` // the server could not be told
	// Settled is what became of it in the server's queue: "given back", "another
	// worker's", or a word for how it was reported, such as "processed".
	Settled string `json:"settled"`
}

// What became of runs that ended elsewhere.
const (
	settledBack      = "given back"
	settledElsewhere = "another worker's"
)

// Elsewhere returns what became of a run that did not end here; empty for others.
func (r Result) Elsewhere() string {
	if r.Settled == settledBack || r.Settled == settledElsewhere {
		return r.Settled
	}
	return ""
}

// Ending says in words how a run ended.
func (r Result) Ending() string {
	if elsewhere := r.Elsewhere(); elsewhere != "" {
		return elsewhere
	}
	ending := r.Reason
	if r.ErrorType != "" {
		ending += " " + r.ErrorType
	}
	if r.Undelivered {
		ending += ", server not told"
	}
	return ending
}

// Delivery is what became of events, and of engines.
type Delivery struct {
	EventsResent      uint64  `json:"events_resent"`
	LogLinesShortened uint64  `json:"log_lines_shortened"`
	LogLinesDropped   uint64  `json:"log_lines_dropped"`
	EnginePanics      uint64  `json:"engine_panics"`
	EnginesStuck      uint64  `json:"engines_stuck"`     // calls that did not end with their run
	EnginesStuckNow   int64   `json:"engines_stuck_now"` // those that still have not
	AcknowledgementMS float64 `json:"acknowledgement_ms"`
}

// Times are averages since the start, in seconds; 0 when there was none yet.
type Times struct {
	Run          Seconds `json:"run_seconds"`
	ClaimToStart Seconds `json:"claim_to_start_seconds"`
	WakeToStart  Seconds `json:"wake_to_start_seconds"`
}

// Process is the program.
type Process struct {
	Version       string    `json:"version"`
	Commit        string    `json:"commit,omitempty"`
	Go            string    `json:"go"`
	Platform      string    `json:"platform"` // as linux/amd64
	Hostname      string    `json:"hostname"`
	PID           int       `json:"pid"`
	Started       time.Time `json:"started"`
	UptimeSeconds Seconds   `json:"uptime_seconds"`
}

// Seconds is a time span that is a number for programs and short for people.
type Seconds float64

// String returns the span with one or two units: "0.4 ms", "340 ms", "12 s", "3 min 20 s",
// "2 h 5 min", "4 d 2 h".
func (s Seconds) String() string {
	n := int(math.Round(float64(s)))
	switch {
	case s <= 0:
		return "0 s"
	case s < 0.00995:
		return strconv.FormatFloat(float64(s)*1000, 'f', 1, 64) + " ms"
	case s < 0.9995:
		return strconv.Itoa(int(math.Round(float64(s)*1000))) + " ms"
	case s < 9.95:
		return strconv.FormatFloat(float64(s), 'f', 1, 64) + " s"
	case n < 60:
		return fmt.Sprintf("%d s", n)
	case n < 3600:
		return fmt.Sprintf("%d min %d s", n/60, n%60)
	case n < 86400:
		return fmt.Sprintf("%d h %d min", n/3600, n%3600/60)
	}
	return fmt.Sprintf("%d d %d h", n/86400, n%86400/3600)
}
