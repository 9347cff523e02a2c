package phxworker

import (
	"maps"
	"sync"

	"github.com/phxworker/phxworker/channel"
	"github.com/phxworker/phxworker/runner"
	"github.com/phxworker/phxworker/slots"
)

// Stats is a worker at one moment.
type Stats struct {
	// Connected tells whether there is a connection just now.
	Connected bool
	// Groups are in the order of [Config.Groups].
	Groups []GroupStats
	// Ended counts the runs that are over, by how they ended.
	Ended map[Reason]int
	// Undelivered counts those of them whose end the server was not told.
	Undelivered int
}

// GroupStats is one slot group at one moment.
type GroupStats struct {
	Name string
	slots.Counts
}

// Stats returns the numbers of this moment.
func (w *Worker) Stats() Stats {
	stats := w.tally.read()
	for _, pool := range w.pools {
		stats.Groups = append(stats.Groups, GroupStats{Name: pool.Group().Name, Counts: pool.Counts()})
	}
	w.mu.Lock()
	socket := w.socket
	w.mu.Unlock()
	if socket != nil {
		status, _ := socket.Status()
		stats.Connected = status.State == channel.Connected
	}
	return stats
}

// running returns how many runs are under way.
func (w *Worker) running() int {
	n := 0
	for _, pool := range w.pools {
		n += pool.Counts().Running
	}
	return n
}

// tally counts runs that are over.
type tally struct {
	mu          sync.Mutex
	ended       map[Reason]int
	undelivered int
}

func (t *tally) add(outcome runner.Outcome) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended == nil {
		t.ended = make(map[Reason]int)
	}
	t.ended[outcome.Reason]++
	if outcome.Err != nil {
		t.undelivered++
	}
}

func (t *tally) read() Stats {
	t.mu.Lock()
	defer t.mu.Unlock()
	return Stats{Ended: maps.Clone(t.ended), Undelivered: t.undelivered}
}
