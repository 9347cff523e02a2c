package phxworker

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/phxworker/phxworker/channel"
	"github.com/phxworker/phxworker/claim"
	"github.com/phxworker/phxworker/internal/histogram"
	"github.com/phxworker/phxworker/runner"
	"github.com/phxworker/phxworker/slots"
)

// Stats is a worker at one moment. What it counts, it counts since [New].
type Stats struct {
	Phase  Phase
	Socket SocketStats
	Queue  QueueStats
	// Breakers are the reasons for which it may claim nothing, those that do not hold as
	// well; none before [Worker.Run].
	Breakers []BreakerStats
	// Groups are in the order of [Config.Groups].
	Groups []GroupStats
	// Runs are those under way, the oldest first.
	Runs []RunStats
	// Results are how the last runs ended, 20 at most, the latest first.
	Results []RunResult
	// Ended counts the runs that ended here, by how they did. Delivery.Settled has
	// all, those that went back to the queue included.
	Ended map[Reason]int
	// Undelivered counts those of them whose end the server was not told.
	Undelivered int
	// RunSeconds is how long runs took, from the claim to the end.
	RunSeconds Histogram
	// ClaimToStart is the time from a claim's reply to the begin of the run.
	ClaimToStart Histogram
	// WakeToStart is the time from a wake-up to the begin of the run that the
	// claim brought which answered it.
	WakeToStart Histogram
	// Delivery is what the runner has counted.
	Delivery runner.Stats
	// ExtensionsOff are the extensions that a topic has crashed over, and which are
	// therefore not used any more.
	ExtensionsOff []string
}

// SocketStats is the connection that has the queue.
type SocketStats struct {
	channel.Status
	channel.Stats

	// Open is how many sockets there are, the further ones for many runs
	// included.
	Open int
}

// QueueStats is the queue's topic.
type QueueStats struct {
	Joined bool
	// Since is since when it is as Joined says; the begin of [Worker.Run] before
	// the first join, zero before that.
	Since time.Time
	// Joins is how often it was joined.
	Joins int
	// Extensions are those that were agreed on at the last join.
	Extensions []string
	// Unknown counts pushes of the server on it that mean nothing here.
	Unknown uint64
}

// GroupStats is one slot group at one moment.
type GroupStats struct {
	Name   string
	Queues []string
	Paused bool
	slots.Counts

	Claims claim.Stats
	// ClaimSeconds is how long the server took to answer claims.
	ClaimSeconds Histogram
}

// RunStats is a run under way.
type RunStats struct {
	runner.Progress

	Group   string
	Claimed time.Time
	// Started is when the engine began to execute it, zero before.
	Started time.Time
}

// RunResult is how a run ended.
type RunResult struct {
	runner.Outcome

	Group string
	// Claimed, Started and Ended are when; Started is zero for a run that never
	// began to execute.
	Claimed, Started, Ended time.Time
}

// Stats returns the numbers of this moment. It may be called at any time.
func (w *Worker) Stats() Stats {
	stats := w.tally.read()
	w.mu.Lock()
	s := w.shift
	stats.Phase = w.phase
	w.mu.Unlock()
	for _, pool := range w.pools {
		group := pool.Group()
		stats.Groups = append(stats.Groups, GroupStats{Name: group.Name, Queues: group.Queues, Counts: pool.Counts()})
	}
	if s == nil {
		return stats
	}
	status, _ := s.socket.Status()
	stats.Socket = SocketStats{Status: status, Stats: s.socket.Stats(), Open: s.sockets.count()}
	stats.Queue = s.queue.stats()
	stats.Breakers = s.turnstile.standing()
	stats.ExtensionsOff = w.extensions.Off()
	stats.Delivery = s.starter.runner.Stats()
	stats.Runs = s.starter.underway()
	for i, loop := range s.loops {
		group := &stats.Groups[i]
		group.Paused, group.Claims = loop.Paused(), loop.Stats()
		group.ClaimSeconds = s.queue.seconds[group.Name].Snapshot()
	}
	return stats
}

// running returns how many runs are under way.
func (w *Worker) running() (n int) {
	for _, pool := range w.pools {
		n += pool.Counts().Running
	}
	return n
}

// claimed is how many slots are kept for claims that the server has not answered.
func (w *Worker) claimed() (n int) {
	for _, pool := range w.pools {
		n += pool.Counts().Claimed
	}
	return n
}

// maxResults is how many results are remembered.
const maxResults = 20

// tally counts runs that are over.
type tally struct {
	mu          sync.Mutex
	ended       map[Reason]int
	undelivered int
	results     []RunResult // the latest last

	runSeconds, claimToStart, wakeToStart histogram.Histogram
}

func (t *tally) add(result RunResult) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended == nil {
		t.ended = make(map[Reason]int)
	}
	if !result.Settled.InQueue() && result.Settled != runner.LeaseLost { // those end elsewhere
		t.ended[result.Reason]++
		t.runSeconds.Observe(result.Ended.Sub(result.Claimed))
	}
	if result.Settled == runner.Undelivered {
		t.undelivered++
	}
	if len(t.results) == maxResults {
		t.results = slices.Delete(t.results, 0, 1)
	}
	t.results = append(t.results, result)
}

func (t *tally) read() Stats {
	s := Stats{RunSeconds: t.runSeconds.Snapshot(), ClaimToStart: t.claimToStart.Snapshot(), WakeToStart: t.wakeToStart.Snapshot()}
	t.mu.Lock()
	defer t.mu.Unlock()
	s.Ended, s.Undelivered, s.Results = maps.Clone(t.ended), t.undelivered, slices.Clone(t.results)
	slices.Reverse(s.Results)
	return s
}

func byAge(a, b RunStats) int {
	return cmp.Or(a.Claimed.Compare(b.Claimed), cmp.Compare(a.RunID, b.RunID))
}
