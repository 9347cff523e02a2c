package web

import (
	"fmt"
	"strings"
	"time"

	"github.com/phxworker/phxworker"
	"github.com/phxworker/phxworker/internal/fence"
)

// Status is a worker at one moment, as GET /status shows it. Fields and values may be
// added; those that are there keep their names and meanings from the first release on. Texts
// for people (summary, not_ready, error) may change.
type Status struct {
	// Summary is one sentence: whether it claims, or why not.
	Summary string `json:"summary"`
	// Health is "good", "attention" when a person wanted it otherwise or it is
	// new, and "bad" when it cannot work.
	Health Health `json:"health"`
	// Ready is what /readyz tells, and NotReady its reason.
	Ready    bool   `json:"ready"`
	NotReady string `json:"not_ready,omitempty"`
	// Phase is "new", "running", "draining", "stopping" (runs are cancelled) or
	// "stopped".
	Phase      string     `json:"phase"`
	Connection Connection `json:"connection"`
	Queue      Queue      `json:"queue"`
	// Unable are the reasons for which nothing is claimed, or one run at a time to see whether
	// they still hold; empty when all is well.
	Unable []Unable `json:"unable"`
	Groups []Group  `json:"groups"`
	// Runs are those under way, the oldest first.
	Runs []Run `json:"runs"`
	// Results are how the last runs ended, 20 at most, the latest first.
	Results []Result `json:"results"`
	// Ended counts the runs that are over, by reason, and Undelivered those of
	// them that the server could not be told the end of.
	Ended       map[string]int `json:"ended"`
	Undelivered int            `json:"undelivered"`
	// Returned counts the runs that went back to the server's queue; they are not
	// in Ended.
	Returned uint64   `json:"returned"`
	Delivery Delivery `json:"delivery"`
	Times    Times    `json:"times"`
	// Fences are those of the kernel around the engine's processes, up or not; empty for an
	// engine that has no such processes.
	Fences  []fence.State `json:"fences"`
	Process Process       `json:"process"`
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

// Unable is a reason for which a worker claims nothing.
type Unable struct {
	pending bool // nothing is known yet

	// Name is "engine" when that cannot execute runs, and "key" when the public key does not
	// fit the tokens of runs.
	Name       string    `json:"name"`
	Error      string    `json:"error"`
	Since      time.Time `json:"since"`
	ForSeconds Seconds   `json:"for_seconds"`
	// Trial says that the next run decides; it is so in NextSeconds.
	Trial       bool    `json:"trial"`
	NextSeconds Seconds `json:"next_seconds"`
}

// String says it in a sentence without its full stop.
func (u Unable) String() string {
	if !u.Trial && u.NextSeconds == 0 { // it is being asked just now, perhaps for the first time
		return u.Error
	}
	what := "the engine cannot execute runs"
	if u.Name == phxworker.BreakerKey {
		what = "runs cannot be verified"
	}
	next := "the next run shows whether it still is so"
	if !u.Trial {
		next = fmt.Sprintf("tried again in %s", u.NextSeconds)
	}
	return fmt.Sprintf("%s for %s (%s): %s", what, u.ForSeconds, next, u.Error)
}

// unable returns what holds of the breakers.
func unable(breakers []phxworker.BreakerStats, now time.Time) []Unable {
	all := []Unable{}
	for _, b := range breakers {
		if b.Cause != nil {
			all = append(all, Unable{
				pending: b.Pending,
				Name:    b.Name, Error: b.Cause.Error(), Since: b.Since.UTC(), ForSeconds: seconds(now.Sub(b.Since)),
				Trial: b.Trial, NextSeconds: seconds(b.Next.Sub(now)),
			})
		}
	}
	return all
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

// Note says in a sentence or two what a group did not take; empty if it took all.
func (g Group) Note() string {
	var notes []string
	if g.HeldBack > 0 {
		notes = append(notes, count(toInt(g.HeldBack), "claim")+" held back by the gate.")
	}
	if g.Refused > 0 {
		notes = append(notes, count(toInt(g.Refused), "run")+" refused because of a bad token.")
	}
	return strings.Join(notes, " ")
}

// Total is how many claims were made.
func (g Group) Total() uint64 { return g.Claims.Run + g.Claims.Empty + g.Claims.Error }

// Claims counts a group's claims by what they brought.
type Claims struct {
	Run   uint64 `json:"run"`
	Empty uint64 `json:"empty"`
	Error uint64 `json:"error"`
}

// Delivery is what became of events, and of engines.
type Delivery struct {
	EventsResent      uint64 `json:"events_resent"`
	LogLinesShortened uint64 `json:"log_lines_shortened"`
	// EventsUndelivered are those that the server does not have, by name.
	EventsUndelivered map[string]uint64 `json:"events_undelivered"`
	EnginePanics      uint64            `json:"engine_panics"`
	EnginesStuck      uint64            `json:"engines_stuck"`     // calls that did not end with their run
	EnginesStuckNow   int64             `json:"engines_stuck_now"` // those that still have not
	AcknowledgementMS float64           `json:"acknowledgement_ms"`
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
