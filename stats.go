package phxworker

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/phxworker/phxworker/channel"
	"github.com/phxworker/phxworker/claim"
	"github.com/phxworker/phxworker/runner"
	"github.com/phxworker/phxworker/slots"
)

// Stats is a worker at one moment. Its counters begin with [New]. Its JSON is the greater part of what
// a worker answers to GET /status; docs/operate.md explains each name, and the names stay.
type Stats struct {
	Phase      Phase           `json:"phase"`
	Connection ConnectionStats `json:"connection"`
	Queue      QueueStats      `json:"queue"`
	// Unable has the reasons why nothing is claimed, or only one run as a trial; empty when all is
	// well.
	Unable []UnableStats `json:"unable"`
	// Groups are in the order of [Config.Groups].
	Groups []GroupStats `json:"groups"`
	// Runs are those under way, the oldest first.
	Runs []RunStats `json:"runs"`
	// Results say how the last runs ended: 20 at most, the latest first.
	Results []RunResult `json:"results"`
	// Ended counts the runs that ended here, by their reason. Undelivered counts those of them whose
	// end could not be reported.
	Ended       map[Reason]int `json:"ended"`
	Undelivered int            `json:"undelivered"`
	// Returned counts the runs that were returned to the server's queue; they are not in Ended.
	// Delivery.Settled has both.
	Returned uint64 `json:"returned"`
	// Delivery has the counters of the runner.
	Delivery runner.Stats `json:"delivery"`
	Times    TimeStats    `json:"times"`
	// ExtensionsOff are the extensions that are not used any more because a topic crashed over them.
	ExtensionsOff []string `json:"extensions_off"`
}

// ConnectionStats is the socket that has the queue.
type ConnectionStats struct {
	// Server is the URL without its query and password, which may be secrets.
	Server string `json:"server"`
	// State is "connecting", "connected" or "closed"; empty before [Worker.Run].
	State string `json:"state"`
	// Error is why there is no connection, and Attempts how many dials have failed since the last
	// connection.
	Error    string `json:"error,omitempty"`
	Attempts int    `json:"attempts"`
	// Connections counts the connections that all sockets have made. Lost counts, by cause, those
	// that were lost and the dials that failed.
	Connections int                      `json:"connections"`
	Lost        map[channel.Cause]uint64 `json:"lost"`
	// RoundTrip is how long the server took to answer the latest heartbeat; 0 before the first.
	RoundTrip Seconds `json:"round_trip_seconds"`
	// Sockets is how many sockets there are, with the further ones for many runs.
	Sockets int `json:"sockets"`
}

// QueueStats is the queue's topic.
type QueueStats struct {
	Joined bool `json:"joined"`
	// Since is when Joined last changed, and For how long ago. Before the first join it is when
	// [Worker.Run] was called; it is zero before that.
	Since time.Time `json:"since,omitzero"`
	For   Seconds   `json:"for_seconds"`
	// Joins is how often it was joined.
	Joins int `json:"joins"`
	// Extensions are those agreed on at the last join.
	Extensions []string `json:"extensions"`
	// Unknown counts the server's pushes that the worker does not know.
	Unknown uint64 `json:"unknown_pushes"`
}

// The names of what must be well for a worker to claim.
const (
	BreakerEngine = "engine" // it can execute runs
	BreakerKey    = "key"    // the public key, and the clock, fit the tokens of runs
	BreakerServer = "server" // the server lets the worker onto runs' topics, and takes how they ended
)

// UnableStats is a reason for which a worker claims nothing.
type UnableStats struct {
	// Name is [BreakerEngine], [BreakerKey] or [BreakerServer], and Error what is wrong with it.
	Name  string `json:"name"`
	Error string `json:"error"`
	// Pending says that the engine has not answered its first check yet, so that nothing is known.
	Pending bool `json:"pending,omitempty"`
	// Since is when this began, and For how long ago.
	Since time.Time `json:"since"`
	For   Seconds   `json:"for_seconds"`
	// Trial says that the next run decides. If it is false, that is so after Next.
	Trial bool    `json:"trial"`
	Next  Seconds `json:"next_seconds"`
}

// GroupStats is one slot group at one moment: its slots, and how it claims.
type GroupStats struct {
	Name   string   `json:"name"`
	Queues []string `json:"queues"`
	// Paused says that the group claims nothing by itself, and OnRequest that the reason is
	// [claim.Options.Manual].
	Paused    bool `json:"paused"`
	OnRequest bool `json:"on_request,omitempty"`
	slots.Counts
	claim.Stats
}

// RunStats is a run under way.
type RunStats struct {
	runner.Progress

	// Age is how long ago it was claimed, and InPhase how long it has been in its phase.
	Age     Seconds `json:"age_seconds"`
	InPhase Seconds `json:"phase_seconds"`
}

// RunResult is how a run ended.
type RunResult struct {
	runner.Outcome

	// Lasted is the time from the claim to the end.
	Lasted Seconds `json:"took_seconds"`
}

// TimeStats says how long runs took; in JSON it has averages.
type TimeStats struct {
	// Run is from the claim to the end.
	Run Histogram `json:"run_seconds"`
	// ClaimToStart is from the reply of a claim to the start of its run by the engine.
	ClaimToStart Histogram `json:"claim_to_start_seconds"`
	// WakeToStart is from a wake-up to the start of the run that its claim brought.
	WakeToStart Histogram `json:"wake_to_start_seconds"`
}

// Stats returns the numbers of this moment. It may be called at any time.
func (w *Worker) Stats() Stats {
	now := time.Now()
	stats := w.tally.read()
	stats.Connection = ConnectionStats{Server: w.cfg.server(), Lost: map[channel.Cause]uint64{}}
	stats.Queue.Extensions, stats.Unable, stats.Runs, stats.ExtensionsOff = []string{}, []UnableStats{}, []RunStats{}, []string{}
	stats.Delivery.Undelivered, stats.Delivery.Settled = map[string]uint64{}, map[Settlement]uint64{}
	w.mu.Lock()
	s := w.shift
	stats.Phase = w.phase
	w.mu.Unlock()
	for i, pool := range w.pools {
		group := GroupStats{Name: pool.Group().Name, Queues: pool.Group().Queues, Counts: pool.Counts()}
		if s != nil {
			group.Paused, group.Stats = s.loops[i].Paused(), s.loops[i].Stats()
			group.OnRequest = group.Paused && w.cfg.Claim.Manual
		}
		stats.Groups = append(stats.Groups, group)
	}
	if s == nil {
		return stats
	}
	s.connection(&stats.Connection)
	stats.Queue = s.queue.stats(now)
	stats.Unable = append(stats.Unable, s.turnstile.unable(now)...)
	stats.ExtensionsOff = append(stats.ExtensionsOff, w.extensions.Off()...)
	stats.Delivery = s.starter.runner.Stats()
	stats.Undelivered = int(stats.Delivery.Settled[runner.Undelivered]) //nolint:gosec // they are counted one by one
	for settled, n := range stats.Delivery.Settled {
		if settled.InQueue() {
			stats.Returned += n
		}
	}
	stats.Runs = append(stats.Runs, s.starter.runStats(now)...)
	return stats
}

// connection fills in the state of the connection.
func (s *shift) connection(c *ConnectionStats) {
	status, _ := s.socket.Status()
	stats := s.socket.Stats()
	c.State, c.Attempts = status.State.String(), status.Attempts
	if status.Err != nil {
		c.Error = status.Err.Error()
	}
	c.Sockets, c.Connections, c.Lost = s.sockets.count()
	c.RoundTrip = seconds(stats.RoundTrip)
}

// inUse returns how many slots hold runs, and how many are reserved for claims without an answer yet.
func (w *Worker) inUse() (running, claimed int) {
	for _, pool := range w.pools {
		counts := pool.Counts()
		running += counts.Running
		claimed += counts.Claimed
	}
	return running, claimed
}

// status is the payload of worker:status.
type status struct {
	Groups   map[string]slots.Counts `json:"groups"`
	Runs     []string                `json:"runs"`
	Draining bool                    `json:"draining"`
}

func (w *Worker) status() status {
	stats := w.Stats()
	_, err := w.claiming()
	s := status{Groups: make(map[string]slots.Counts), Runs: []string{}, Draining: err != nil}
	for _, g := range stats.Groups {
		s.Groups[g.Name] = g.Counts
	}
	for _, run := range stats.Runs {
		s.Runs = append(s.Runs, run.RunID)
	}
	return s
}

// maxResults is how many results are remembered.
const maxResults = 20

// tally counts the runs that have ended and how long they took.
type tally struct {
	mu      sync.Mutex
	ended   map[Reason]int
	results []RunResult // the oldest first
	times   TimeStats
}

// add counts a run that has ended.
func (t *tally) add(outcome runner.Outcome) RunResult {
	lasted := outcome.Ended.Sub(outcome.Claimed)
	outcome.Claimed, outcome.Started, outcome.Ended = outcome.Claimed.UTC(), outcome.Started.UTC(), outcome.Ended.UTC()
	result := RunResult{outcome, seconds(lasted)}
	t.mu.Lock()
	defer t.mu.Unlock()
	if !outcome.Settled.Elsewhere() {
		t.ended[outcome.Reason]++
		t.times.Run.Observe(lasted)
	}
	if len(t.results) == maxResults {
		t.results = slices.Delete(t.results, 0, 1)
	}
	t.results = append(t.results, result)
	return result
}

// start counts the times of a run that its engine starts.
func (t *tally) start(run claim.Run) {
	now := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.times.ClaimToStart.Observe(now.Sub(run.Claimed))
	if !run.Woken.IsZero() {
		t.times.WakeToStart.Observe(now.Sub(run.Woken))
	}
}

func (t *tally) read() Stats {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := Stats{Ended: maps.Clone(t.ended), Results: append([]RunResult{}, t.results...), Times: t.times}
	slices.Reverse(s.Results)
	return s
}

// Seconds is a time span: a number in JSON, and a short text for people.
type Seconds float64

// seconds returns d in seconds, rounded to 10 µs; 0 if it is negative.
func seconds(d time.Duration) Seconds {
	return Seconds(float64(max(d, 0).Round(10*time.Microsecond).Microseconds()) / 1e6)
}

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
